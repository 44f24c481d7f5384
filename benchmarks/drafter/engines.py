"""vLLM and llama.cpp as the recipes have them, with a drafter or without."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.drafter.answers import Client

from outrider.app.environment import Environment
from outrider.app.server import Launch
from outrider.drafting.gguf_export import export_gguf
from outrider.engines.llamacpp import LlamaCpp
from outrider.engines.speculation import Speculation
from outrider.engines.vllm import VLLM
from outrider.models.weights import Weights
from outrider.recipes.library import load_catalog
from outrider.recipes.schema import Recipe

_PATIENCE = 600.0
"""Seconds that an engine may take to start on a busy machine."""
RECIPES = {"vllm": "smollm2-135m-instruct/vllm-cpu", "llamacpp": "smollm2-135m-instruct/llamacpp-cpu"}
"""By engine, whose flags it gets."""


def version(name: str) -> str:
    """The engine's, as its recipe has it."""
    return load_catalog([]).get(RECIPES[name]).engine.version


def gguf() -> Path:
    """The model that llama.cpp runs, fetched where it is not there yet."""
    first = load_catalog([]).get(RECIPES["llamacpp"]).weights[0]
    return Weights(first.reference, sha256=first.sha256).prepare(lambda progress: None)


@contextmanager
def serving(name: str, target: Path, drafter: Path | None, scratch: Path) -> Iterator[Launch]:
    """An engine that is ready.

    Args:
        name: one of :data:`RECIPES`.
        target: the model's files.
        drafter: a directory in z-lab's format, converted where the engine needs it; None: no speculation.
        scratch: a directory that is made for it.

    Raises:
        SystemExit: it did not come up.
    """
    scratch.mkdir(mode=0o700)
    engine = (_vllm if name == "vllm" else _llamacpp)(load_catalog([]).get(RECIPES[name]), target, drafter, scratch)
    engine.prepare(lambda progress: None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    launch = Launch("drafter", "127.0.0.1", port, "or-bench", scratch / "engine.log", scratch)
    engine.start(launch)
    try:
        until = time.monotonic() + _PATIENCE
        while not engine.probe():
            if time.monotonic() > until:
                raise SystemExit(f"{name} did not come up; see {launch.log}")
            time.sleep(0.5)
        Client(name, launch, limit=8).ask((1, 2, 3))
        yield launch
    finally:
        engine.stop(30.0)


def _vllm(recipe: Recipe, target: Path, drafter: Path | None, scratch: Path) -> VLLM:
    wanted = recipe.engine.environment
    return VLLM(
        Weights(f"path:{target.absolute()}"),
        Environment(packages=wanted.packages, patches=wanted.patches),
        speculation=_speculation(recipe, drafter),
        **_flags(recipe),
    )


def _llamacpp(recipe: Recipe, target: Path, drafter: Path | None, scratch: Path) -> LlamaCpp:
    file = drafter and export_gguf(drafter, scratch / "drafter.gguf", target_model=target)
    return LlamaCpp(
        Weights(f"path:{target.absolute()}"),
        speculation=_speculation(recipe, file),
        **_flags(recipe),
    )


def _flags(recipe: Recipe) -> dict[str, Any]:
    return {name: flag.value for name, flag in recipe.flags.items()}


def _speculation(recipe: Recipe, drafter: Path | None) -> Speculation | None:
    """By the recipe's DFlash, with this drafter's files."""
    if drafter is None:
        return None
    option = next(one for one in recipe.drafters if one.method == "dflash")
    weights = Weights(f"path:{drafter.absolute()}")
    return Speculation("dflash", tokens=option.tokens, drafter=weights, quantization=option.quantization)
