"""SIGKILL of each process while the real engine serves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.outrider_process import MODEL, NAME, Outrider, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def _replica(outrider: Outrider) -> dict[str, object]:
    (replica,) = outrider.json("endpoint", "info", NAME)["replicas"]
    return dict(replica)


def test_the_controller_dies_during_a_stream(outrider: Outrider) -> None:
    outrider.run("endpoint", "create", "--model", MODEL)
    before = _replica(outrider)
    body = {
        "model": NAME,
        "messages": [{"role": "user", "content": "Count from one to a hundred in words."}],
        "max_tokens": 200,
        "ignore_eos": True,
        "stream": True,
    }
    lines: list[str] = []
    with httpx.stream("POST", f"{outrider.url}/v1/chat/completions", json=body, timeout=120) as stream:
        for line in stream.iter_lines():
            if not lines:
                os.kill(outrider.pid("controller"), signal.SIGKILL)
            lines.append(line)
    assert "data: [DONE]" in lines
    assert outrider.chat().status_code == 200
    outrider.run("up", "--port", str(outrider.port), "--api-port", str(outrider.api_port))
    until(lambda: outrider.json("endpoint", "info", NAME)["state"] == "ready")
    after = _replica(outrider)
    assert (after["id"], after["pid"]) == (before["id"], before["pid"])
    assert outrider.chat().status_code == 200


def test_the_gateway_comes_back_with_its_saved_table(outrider: Outrider) -> None:
    argv = [sys.executable, "-m", "outrider.cli.main", "up", "--foreground"]
    argv += ["--port", str(outrider.port), "--api-port", str(outrider.api_port)]
    foreground = subprocess.Popen(argv, env=outrider.env, stdout=subprocess.DEVNULL)
    try:
        until(lambda: outrider.attempt("status").returncode == 0)
        outrider.run("endpoint", "create", "--model", MODEL)
        first = outrider.pid("gateway")
        os.kill(outrider.pid("controller"), signal.SIGSTOP)  # it cannot answer: only the saved table is left
        try:
            os.kill(first, signal.SIGKILL)
            until(lambda: _answers(outrider), seconds=30)
            assert outrider.pid("gateway") != first
        finally:
            os.kill(outrider.pid("controller"), signal.SIGCONT)
    finally:
        foreground.terminate()
        foreground.wait(90)
    assert outrider.leftovers() == []


def test_the_gateway_is_renewed_under_load(outrider: Outrider) -> None:
    outrider.run("up")
    first = outrider.pid("gateway")
    over = threading.Event()

    def keep_asking() -> int:
        asked = 0
        while not over.is_set():
            assert _answers(outrider, status=404), f"no answer after {asked}"
            asked += 1
        return asked

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(keep_asking)
        try:
            outrider.run("up", "--renew-gateway")
            until(lambda: not psutil.pid_exists(first))
        finally:
            over.set()
        assert asking.result() > 0
    second = outrider.pid("gateway")
    assert second != first
    outrider.run("up")  # finds the new one
    assert outrider.pid("gateway") == second
    outrider.run("up", "--renew-gateway", "--workers", "2")
    assert not _listening(second)
    third = outrider.pid("gateway")
    until(lambda: len(psutil.Process(third).children()) == 2)
    assert _answers(outrider, status=404)
    workers = [third, *(one.pid for one in psutil.Process(third).children())]
    assert any(map(_listening, workers))
    outrider.run("up", "--renew-gateway")
    assert not any(map(_listening, workers)), "whoever comes now is answered by the new one"


def test_a_restart_that_fails_is_tried_again(outrider: Outrider, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "outrider.cli.main", "up", "--foreground"]
    argv += ["--port", str(outrider.port), "--api-port", str(outrider.api_port)]
    said = tmp_path / "said"
    with said.open("w") as output:
        foreground = subprocess.Popen(argv, env=outrider.env, stdout=output, stderr=output)
    try:
        until(lambda: "gateway" in said.read_text())  # its first start is over: that alone may fail
        foreground.send_signal(signal.SIGSTOP)  # so that the port can be taken before it looks again
        os.kill(outrider.pid("gateway"), signal.SIGKILL)
        taken = until(lambda: _listener(outrider.port))
        assert taken is not None
        with taken:
            foreground.send_signal(signal.SIGCONT)
            until(lambda: f"Port {outrider.port}" in said.read_text())
            assert foreground.poll() is None
        until(lambda: _answers(outrider, status=404))
    finally:
        foreground.send_signal(signal.SIGCONT)
        foreground.terminate()
        foreground.wait(90)
    assert outrider.leftovers() == []


def _listening(pid: int) -> bool:
    try:
        return any(one.status == psutil.CONN_LISTEN for one in psutil.Process(pid).net_connections(kind="tcp"))
    except psutil.Error:
        return False


def _listener(port: int) -> socket.socket | None:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None


def _answers(outrider: Outrider, *, status: int = 200) -> bool:
    try:
        return outrider.chat().status_code == status
    except httpx.TransportError:
        return False


def test_a_killed_engine_is_replaced_with_its_last_words(outrider: Outrider) -> None:
    outrider.run("endpoint", "create", "--model", MODEL)
    before = _replica(outrider)
    engine = subprocess.run(["pgrep", "-P", str(before["pid"])], capture_output=True, text=True, check=True)
    os.kill(int(engine.stdout.split()[0]), signal.SIGKILL)

    def replaced() -> bool:
        view = outrider.json("endpoint", "info", NAME)
        return view["state"] == "ready" and [r["id"] for r in view["replicas"]] != [before["id"]]

    until(replaced)
    (failed,) = [e for e in outrider.json("endpoint", "events", NAME) if e["kind"] == "replica_failed"]
    assert "SIGKILL" in failed["message"]
    assert failed["data"]["log"]
    assert outrider.chat().status_code == 200


def test_a_killed_runner_takes_its_engine_along(outrider: Outrider) -> None:
    outrider.run("endpoint", "create", "--model", MODEL)
    pid = int(str(_replica(outrider)["pid"]))
    engine = int(
        subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True).stdout.split()[0]
    )
    os.kill(pid, signal.SIGKILL)
    until(lambda: not _alive(engine))
    until(lambda: outrider.json("endpoint", "info", NAME)["state"] == "ready")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_two_commands_at_once_start_one_outrider(outrider: Outrider) -> None:
    codes: list[int] = []
    words = ("up", "--port", str(outrider.port), "--api-port", str(outrider.api_port))
    threads = [threading.Thread(target=lambda: codes.append(outrider.attempt(*words).returncode)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0]
    assert json.loads(outrider.run("status", "--json"))["gateway"]["pid"] == outrider.pid("gateway")
