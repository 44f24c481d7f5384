"""The public names, and what importing costs."""

from __future__ import annotations

import json
import subprocess
import sys

import outrider

PUBLIC = {"App", "Client", "Drafter", "Endpoint", "Environment", "LlamaCpp", "Objective", "OutriderError", "Regions"}
PUBLIC |= {
    "Adapter",
    "DraftWeights",
    "ModelFacts",
    "OwnWeights",
    "Resources",
    "Routing",
    "SGLang",
    "Scaling",
    "Speculation",
    "VLLM",
    "Weights",
    "Workload",
    "__version__",
    "enter",
    "exit",
}
MOST_MODULES = 220
"""Modules that ``outrider --help`` may import, the standard library's included (155 on Python 3.11)."""


def test_public_names() -> None:
    assert set(outrider.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(outrider, name) is not None


def test_help_imports_little() -> None:
    code = (
        "import sys, json, time; t = time.perf_counter(); sys.argv = ['outrider', '--help']\n"
        "from outrider.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('\\n' + json.dumps([time.perf_counter() - t, sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, modules = json.loads(done.stdout.splitlines()[-1])
    print(f"outrider --help: {len(modules)} modules, {seconds:.3f} s")
    for heavy in ("pydantic", "sqlalchemy", "fastapi", "httpx", "yaml", "uvicorn"):
        assert heavy not in modules
    assert len(modules) < MOST_MODULES, len(modules)
