"""SmolLM2-135M tuned for real, by ``outrider endpoint tune``: with llama.cpp (Q4_1) and with vLLM (bf16), on this CPU.

    python -m benchmarks.tuning.measure [--scale 1.0] [--only RUN]

Three runs, each with an Outrider of its own: ``llamacpp`` and ``vllm`` on the machine as it is, and
``llamacpp-busy``, the threads alone while other processes keep every core busy. Traffic is half chat, half JSON that
repeats its prompt, two requests in flight. Writes ``results/latest.json``, each run's report and plot, and the part of
``docs/guides/tuning.md`` between its marks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tuning import page, workloads

from outrider._version import __version__
from outrider.models.sources import SHIPPED_DRAFTERS
from outrider.placement.discover import discover
from outrider.spec.home import Home

RESULTS = Path(__file__).with_name("results")
SHIPPED = SHIPPED_DRAFTERS / "smollm2-135m-instruct-dflash"
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
CONCURRENCY = 2
_SPIN = "while True: pass"


@dataclass(frozen=True)
class Run:
    """One tuning.

    Attributes:
        create: further words for ``endpoint create``.
        tune: further words for ``endpoint tune``.
        minutes: budget at scale 1.
        busy: whether other processes keep every core busy meanwhile.
    """

    create: tuple[str, ...]
    tune: tuple[str, ...]
    minutes: float
    busy: bool = False


RUNS: dict[str, Run] = {
    "llamacpp": Run(("--engine", "llamacpp"), ("--vary", "threads", "--vary", "speculation"), 12),
    "llamacpp-busy": Run(("--engine", "llamacpp"), ("--vary", "threads"), 12, busy=True),
    "vllm": Run(
        ("--engine", "vllm", "--drafter", "off", "--yes"),
        (
            "--vary",
            "speculation",
            "--method",
            "off",
            "--method",
            "dflash",
        ),
        30,
    ),
}
"""The tuner has to find out by itself: llama.cpp's endpoint begins with the shipped drafter, vLLM's with none."""


def main() -> None:
    """Tune, and write what came out."""
    options = _options()
    found = _earlier()
    for name in options.only or RUNS:
        found[name] = _tuned(name, RUNS[name], options.scale)
        _write(found)  # after each, since the next takes minutes
    page.PAGE.write_text(page.current(page.PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", type=float, default=1.0, help="of every budget")
    parser.add_argument("--only", action="append", choices=RUNS, help="these runs alone; the others stay as they are")
    return parser.parse_args()


def _tuned(name: str, run: Run, scale: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="outrider-tuning-") as directory, _outrider(Path(directory)) as call:
        workload = workloads.write(Path(directory), concurrency=CONCURRENCY)
        more: tuple[str, ...] = ()
        if name == "vllm":
            more = ("--weights", f"path:{_safetensors()}")
        elif not run.busy:
            more = ("--drafter", f"path:{_gguf_drafter(Path(directory), call)}")
        call("endpoint", "create", "--model", MODEL, "--name", name, "--no-wait", *run.create, *more)
        call("endpoint", "stop", name)
        results = Path(directory) / "results"
        words = ["endpoint", "tune", name, "--workload", str(workload), "--seed", "1", "--output", str(results)]
        with _busy() if run.busy else contextlib.nullcontext():
            call(*words, "--budget", f"{60 * run.minutes * scale:.0f}s", *run.tune)
        RESULTS.mkdir(exist_ok=True)
        shutil.copy(results / f"tuned-{name}.png", RESULTS)
        for suffix in ("md", "yaml"):
            if (made := results / f"tuned-{name}.{suffix}").exists():
                (RESULTS / made.name).write_text(_anywhere(made.read_text(), directory))
        data: dict[str, Any] = json.loads(_anywhere((results / f"tuned-{name}.json").read_text(), directory))
    data.pop("trials")  # thousands of requests; what is said of them stays
    return data | {"busy": run.busy}


def _anywhere(text: str, directory: str) -> str:
    """The text without the places of this machine."""
    return text.replace(directory, ".").replace(str(Home.from_environment().cache), ".cache")


@contextmanager
def _outrider(directory: Path) -> Iterator[Any]:
    """An Outrider of its own, with the user's cache; gives what calls its command line."""
    ports = [_free_port() for _ in range(2)]
    env = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
    if "OUTRIDER_CACHE" in os.environ:
        env["OUTRIDER_CACHE"] = os.environ["OUTRIDER_CACHE"]
    env |= {
        "OUTRIDER_HOME": str(directory / "home"),
        "XDG_CONFIG_HOME": str(directory / "config"),
        "OUTRIDER_PORT": str(ports[0]),
        "OUTRIDER_API_PORT": str(ports[1]),
    }

    def call(*words: str) -> None:
        print("$ outrider", *words, flush=True)
        subprocess.run([sys.executable, "-m", "outrider.cli.main", *words], env=env, cwd=directory, check=True)

    try:
        yield call
    finally:
        call("down")


@contextmanager
def _busy() -> Iterator[None]:
    """As many processes as there are cores, which do nothing but compute."""
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def _safetensors() -> Path:
    """The weights for vLLM: SmolLM2 dequantised from the same GGUF, made once, beside the engine's environment."""
    os.environ["OUTRIDER_TEST_CACHE"] = str(Home.from_environment().cache)
    from tests.engines import vllm_parts

    return vllm_parts.weights()


def _gguf_drafter(directory: Path, call: Any) -> Path:
    """The shipped drafter in the form that llama.cpp reads."""
    from tests.models.real import smollm

    file = directory / "drafter.gguf"
    call("drafter", "export", str(SHIPPED), "--format", "gguf", "--target", str(smollm()), "--output", str(file))
    return file


def _earlier() -> dict[str, Any]:
    path = RESULTS / "latest.json"
    return dict(json.loads(path.read_text())["runs"]) if path.exists() else {}


def _write(runs: Mapping[str, Any]) -> None:
    machine = discover(Home.from_environment())
    rows = [{"run": name, **row} for name, run in runs.items() for row in run["slices"]]
    data = {
        "machine": {
            "cpu": machine.cpu_model,
            "cores": machine.cores,
            "memory_bytes": machine.memory_bytes,
            "load_average": round(os.getloadavg()[0], 2),
        },
        "versions": {
            "outrider": __version__,
            "python": platform.python_version(),
            **{name: run["engine"] for name, run in runs.items()},
        },
        "rounds": 2,
        "rows": rows,
        "ratios": _ratios(runs),
        "runs": dict(runs),
    }
    (RESULTS / "latest.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def _ratios(runs: Mapping[str, Any]) -> dict[str, float]:
    """Named by what is divided by what. Above 1: drafting decodes faster than plain decoding; 2 threads cost more."""
    found: dict[str, float] = {}
    for name, run in runs.items():
        best: dict[str, float] = {}
        for row in run["slices"]:
            if row["drafting"] != "off" and row["acceptance_length"] > 1 and row["speedup"] is not None:
                best[row["kind"]] = max(best.get(row["kind"], 0.0), row["speedup"])
        for kind, speedup in best.items():
            found[f"itl_{name}_{kind}_plain_over_best_drafting"] = speedup
        if {"chat", "json"} <= best.keys():
            found[f"speedup_{name}_json_over_chat"] = round(best["json"] / best["chat"], 3)
        for one in run["comparisons"]:
            if one["stage"] == "threads" and one["cost_other_over_stands"]:
                count = re.search(r"threads=(\d+)", one["other"])
                found[f"seconds_a_token_{name}_{count[1] if count else 1}_threads_over_1"] = one[
                    "cost_other_over_stands"
                ]["value"]
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
