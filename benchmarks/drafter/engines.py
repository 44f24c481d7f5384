"""vLLM and llama.cpp as the recipes have them, with a drafter or without, and their answers step by step."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from benchmarks.drafter.pairs import Answer, answered, by_step

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
"""Seconds that an engine may take to start or to answer on a busy machine."""
Ask = Callable[[Launch, Sequence[int], int], Answer]


@dataclass(frozen=True)
class Kind:
    """One of the engines.

    Attributes:
        recipe: whose flags it gets.
        ask: one greedy answer; takes the launch, the prompt and the most tokens.
    """

    recipe: str
    ask: Ask

    @property
    def version(self) -> str:
        """The engine's, as the recipe has it."""
        return load_catalog([]).get(self.recipe).engine.version


def gguf() -> Path:
    """The model that llama.cpp runs, fetched where it is not there yet."""
    first = load_catalog([]).get(ENGINES["llamacpp"].recipe).weights[0]
    return Weights(first.reference, sha256=first.sha256).prepare(lambda progress: None)


@contextmanager
def serving(name: str, target: Path, drafter: Path | None, scratch: Path) -> Iterator[Launch]:
    """An engine that is ready.

    Args:
        name: one of :data:`ENGINES`.
        target: the model's files.
        drafter: a directory in z-lab's format, converted where the engine needs it; None: no speculation.
        scratch: a directory that is made for it.

    Raises:
        SystemExit: it did not come up.
    """
    scratch.mkdir(mode=0o700)
    kind = ENGINES[name]
    engine = (_vllm if name == "vllm" else _llamacpp)(load_catalog([]).get(kind.recipe), target, drafter, scratch)
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
        kind.ask(launch, (1, 2, 3), 8)
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


def ask_vllm(launch: Launch, prompt: Sequence[int], limit: int) -> Answer:
    """One chunk of its stream is one verification step."""
    body = {"model": launch.name, "max_tokens": limit, "return_token_ids": True}
    events = _events(launch, "/v1/completions", prompt, body)
    chosen = ((when, event["choices"][0]) for when, event in events if event["choices"])
    return answered([(when, choice["token_ids"]) for when, choice in chosen if choice.get("token_ids")])


def ask_llamacpp(launch: Launch, prompt: Sequence[int], limit: int) -> Answer:
    """One chunk of its stream is one token; those of one verification step carry the same time of decoding.

    Tokens whose text ends inside a character are held back, and their ids with them. Such an answer is asked for again
    as a whole, and has no steps.
    """
    body = {"n_predict": limit, "return_tokens": True, "timings_per_token": True}
    events = list(_events(launch, "/completion", prompt, body))
    said = [(when, event) for when, event in events if event.get("tokens")]
    found = answered(by_step([(when, event["timings"]["predicted_ms"], event["tokens"]) for when, event in said]))
    end = events[-1][1]
    if len(found.tokens) + (end["stop_type"] == "eos") >= end["tokens_predicted"]:
        return found
    url, headers = f"http://{launch.host}:{launch.port}/completion", {"Authorization": f"Bearer {launch.key}"}
    whole = {"prompt": list(prompt), "temperature": 0, "n_predict": limit, "return_tokens": True}
    response = httpx.post(url, json=whole, headers=headers, timeout=_PATIENCE)
    response.raise_for_status()
    return Answer(tuple(response.json()["tokens"]), (), found.seconds)


def _events(
    launch: Launch, path: str, prompt: Sequence[int], more: dict[str, Any]
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Each event of a greedy answer's stream, and when it came."""
    body = {"prompt": list(prompt), "temperature": 0, "stream": True, **more}
    url, headers = f"http://{launch.host}:{launch.port}{path}", {"Authorization": f"Bearer {launch.key}"}
    with httpx.stream("POST", url, json=body, headers=headers, timeout=_PATIENCE) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if line.startswith("data: {"):
                yield time.perf_counter(), json.loads(line.removeprefix("data: "))


ENGINES = {
    "vllm": Kind("smollm2-135m-instruct/vllm-cpu", ask_vllm),
    "llamacpp": Kind("smollm2-135m-instruct/llamacpp-cpu", ask_llamacpp),
}
