"""The whole of the GPU benchmark against the real vLLM on the CPU. Only ``make test-vllm`` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.drafting import dataset
from tests.engines import vllm_parts
from tests.engines.drafting_parts import SHIPPED, prompts

pytestmark = [pytest.mark.vllm, pytest.mark.e2e, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
CPU = {"context": 1024, "slots": 2, "batch_size": None, "memory_share": None}
"""In the place of what the benchmark asks of a GPU."""


def test_vllm_with_and_without_the_drafter(tmp_path: Path) -> None:
    rows = [
        dataset.Row(name, name, "held_out", None, [*prompt, 2], [(len(prompt), len(prompt) + 1)])
        for name, prompt in zip(("chat", "code", "json"), prompts(), strict=False)
    ]
    dataset.write(tmp_path / "data", rows, {})
    words = {
        "target": vllm_parts.weights(),
        "data": tmp_path / "data",
        "drafter": SHIPPED,
        "python": vllm_parts.environment().interpreter,
        "options": json.dumps(CPU | {"kv_cache_gib": 1, "threads": 1, "eager": True}),
        "limit": 24,
        "width": 2,
        "rounds": 1,
        "patience": 600,
        "device": "cpu",
        "result": tmp_path / "gpu.json",
        "keep": tmp_path / "kept",
    }
    argv = [sys.executable, "-m", "benchmarks.drafter.gpu", "vllm"]
    argv += [word for name, value in words.items() for word in (f"--{name}", str(value))]
    home = {"OUTRIDER_HOME": str(tmp_path / "home"), "OUTRIDER_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, cwd=ROOT, env={**os.environ, **home}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "gpu.json").read_text())
    runs = found["findings"]["vllm"]
    for run in (runs["without"], runs["with"]):
        assert run["problem"] is None and all(stage["ok"] for stage in run["stages"]), run["stages"]
        assert run["left_over"] == [] and run["key_in_log"] is False
    assert "--speculative-config" in runs["with"]["argv"] and "--speculative-config" not in runs["without"]["argv"]
    # The engine's page counts what the streams show.
    assert runs["tau_page"] == pytest.approx(runs["tau_answers"], rel=0.1)
    assert [row["slice"] for row in found["rows"]] == ["chat", "code", "json"]
    assert all(row["largest_regret_with"] <= 1.0 for row in found["rows"])
    assert {name for name in found["ratios"] if name.startswith("decode_ms")} == {
        f"decode_ms_{name}_vllm_over_none" for name in ("chat", "code", "json")
    }
