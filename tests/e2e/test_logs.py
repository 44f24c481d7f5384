"""``endpoint logs --follow`` with the real engine: while it serves, across a replacement, to the end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.outrider_process import MODEL, NAME, Outrider, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

_INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored by what runs in its background
from outrider.cli.main import main
main()
"""


class Reader:
    """A running ``outrider endpoint logs``, and what it said so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.said = ""

    def wait_for(self, text: str, *, after: int = 0) -> int:
        """Read until a text stands behind a position; where it ends."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + 60
        while (found := self.said.find(text, after)) < 0:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {text!r} in:\n{self.said}"
            new = os.read(self.process.stdout.fileno(), 65536)
            assert new, f"it ended without {text!r}:\n{self.said}"
            self.said += new.decode()
        return found + len(text)

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@contextmanager
def following(outrider: Outrider, *words: str) -> Iterator[Reader]:
    """Follow the logs of the endpoint."""
    command = [sys.executable, "-c", _INTERRUPTIBLE, "endpoint", "logs", NAME, "--follow", *words]
    with subprocess.Popen(command, env=outrider.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            yield Reader(process)
        finally:
            process.kill()


def _replica(outrider: Outrider) -> dict[str, object]:
    (replica,) = outrider.json("endpoint", "info", NAME)["replicas"]
    return dict(replica)


def test_following_goes_on_with_the_next_replica_and_ends_with_the_endpoint(outrider: Outrider) -> None:
    outrider.run("endpoint", "create", "--model", MODEL)
    first = _replica(outrider)
    log = outrider.home.replicas / str(first["id"]) / "replica.log"
    with following(outrider) as latest, following(outrider, "--replica", str(first["id"])) as named:
        latest.wait_for(log.read_text().splitlines()[-1])
        assert outrider.chat(tokens=4).status_code == 200
        with log.open("a") as file:
            file.write("a line of its own\n")
        latest.wait_for("a line of its own\n")

        log.rename(log.with_name("replica.log.1"))
        log.write_text("after the rotation\n")
        latest.wait_for("after the rotation\n")

        os.kill(int(str(first["pid"])), signal.SIGKILL)
        begun = latest.wait_for("==> replica ")
        assert str(first["id"]) not in latest.said[begun:]
        until(lambda: _is_ready(outrider))
        second = _replica(outrider)
        latest.wait_for(f"{second['id']} <==\n", after=begun)
        written = (outrider.home.replicas / str(second["id"]) / "replica.log").read_text().splitlines()
        latest.wait_for(written[-1], after=begun)
        assert named.process.wait(30) == 0  # its replica is gone

        outrider.run("endpoint", "rm", NAME, "--purge")
        assert latest.process.wait(30) == 0


def _is_ready(outrider: Outrider) -> bool:
    return bool(outrider.json("endpoint", "info", NAME)["state"] == "ready")


def test_ctrl_c_ends_following_and_nothing_else(outrider: Outrider) -> None:
    outrider.run("endpoint", "create", "--model", MODEL)
    with following(outrider) as reader:
        reader.wait_for("\n")
        assert reader.interrupt() == 130
        rest = reader.process.stdout.read().decode() if reader.process.stdout else ""
        assert "Traceback" not in reader.said + rest
    assert _is_ready(outrider)
    assert outrider.attempt("endpoint", "logs", NAME, "-f", "--replica", "none").returncode == 3
