"""Check the roofline and write ``results/latest.json``. Nothing is timed: figures are computed and compared.

python -m benchmarks.roofline
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

from benchmarks.roofline.check import report

from outrider._version import __version__

RESULT = Path(__file__).with_name("results") / "latest.json"


def main() -> None:
    """Write the result and print the ratios."""
    machine = "none: computed from benchmarks/roofline/rows.yaml and src/outrider/recipes/gpus.yaml"
    versions = {"outrider": __version__, "python": platform.python_version()}
    result = {"machine": machine, "versions": versions, "rounds": 1, **report()}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, value in result["ratios"].items():
        print(f"{name} {value:.3f}")


if __name__ == "__main__":
    main()
