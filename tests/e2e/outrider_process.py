"""A private Outrider, driven as a person drives it: by its command line."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

from outrider.spec.home import Home

_CHOICE = random.SystemRandom()
"""Not seeded: test processes side by side would choose the same ports."""

_T = TypeVar("_T")

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
NAME = "smollm2-135m-instruct"


class Outrider:
    """Home, cache and ports of its own."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("OUTRIDER_")}
        self.port, self.api_port = free_port(), free_port()
        self.env |= {
            "OUTRIDER_HOME": str(root / "home"),
            "OUTRIDER_CACHE": str(cache),
            "OUTRIDER_PORT": str(self.port),
            "OUTRIDER_API_PORT": str(self.api_port),
            "XDG_CONFIG_HOME": str(root / "config"),
        }
        self.home = Home.from_environment(self.env)
        self.url = f"http://127.0.0.1:{self.port}"

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command; its standard output. Fails unless it exits with ``code``."""
        done = self.attempt(*words)
        assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def attempt(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        argv = [sys.executable, "-m", "outrider.cli.main", *words]
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, check=False, timeout=300)

    def json(self, *words: str) -> Any:
        """Run a command with ``--json``."""
        return json.loads(self.run(*words, "--json"))

    def chat(self, name: str = NAME, *, tokens: int = 16, stream: bool = False) -> httpx.Response:
        """One chat completion through the gateway, of exactly ``tokens`` tokens: the engine may not end it sooner."""
        body = {
            "model": name,
            "messages": [{"role": "user", "content": "Count from one to a hundred in words."}],
            "max_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": stream,
        }
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, timeout=120)

    def pid(self, process: str) -> int:
        """Pid of the controller or the gateway."""
        return int(json.loads((self.home.run / f"{process}.pid").read_text())["pid"])

    def leftovers(self) -> list[str]:
        """Processes, sockets and replica directories of this Outrider that are still there."""
        found = _processes(self.home.root)
        if self.home.sockets.exists():
            found += map(str, self.home.sockets.iterdir())
        return found + [str(path) for path in self.home.replicas.glob("*")]

    def leftovers_of_tuning(self) -> list[str]:
        """Processes of a tuner's replicas that are still there."""
        return _processes(self.home.root / "tuning")

    def remove(self) -> None:
        """Take it down and delete its home."""
        self.attempt("down")
        shutil.rmtree(self.home.root, ignore_errors=True)


def _processes(directory: Path) -> list[str]:
    """Command lines that name a directory."""
    needle = os.fsencode(directory)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            try:
                if needle in (entry / "cmdline").read_bytes():
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
    return found


def until(look: Callable[[], _T], *, seconds: float = 60.0) -> _T:
    """Look until something true is seen; the thing."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not happen"
        select.select([], [], [], 0.05)
    return seen


def free_port() -> int:
    """A port of loopback that is free now, of those that no outgoing connection is given meanwhile."""
    for _ in range(100):
        port = _CHOICE.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port was found")
