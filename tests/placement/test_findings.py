"""What each fact means: on a machine where all is well, one thing is made wrong at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from outrider.placement.findings import Finding, Status, machine_findings, worst
from outrider.placement.machine import Clock, Memory, OpenFiles, Port, Sockets
from tests.placement.machines import GIB, WELL

_LONG = Path("/" + "x" * 120)


def _changed(**changes: Any) -> dict[str, Finding]:
    """The findings of the machine, by check; a fact given as a dict changes fields of it."""
    facts = {
        name: replace(getattr(WELL, name), **value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }
    return {finding.check: finding for finding in machine_findings(replace(WELL, **facts))}


def test_where_all_is_well_nothing_is_said() -> None:
    found = machine_findings(WELL)
    assert {finding.status for finding in found} == {Status.OK}
    assert not any(finding.consequence or finding.fix for finding in found)
    assert all(finding.found for finding in found)
    assert len({finding.check for finding in found}) == len(found)


CASES: list[tuple[str, Status, dict[str, Any], str, str]] = [
    ("cores", Status.WARNING, {"processor": {"quota": 1.5}}, "quota of 1.5", "at most 1 threads"),
    ("cores", Status.NOTE, {"processor": {"usable": 1}}, "1 of 16", "two cores or more"),
    ("cores", Status.NOTE, {"processor": {"smt": True}}, "SMT on", "at 8 or fewer"),
    ("memory", Status.WARNING, {"memory": Memory(8 * GIB, GIB, None)}, "1.0 GiB available", "ps aux"),
    ("memory", Status.WARNING, {"memory": Memory(64 * GIB, 60 * GIB, GIB)}, "allows 1.0 GiB", "container"),
    ("memory", Status.NOTE, {"memory": Memory(64 * GIB, 60 * GIB, 16 * GIB)}, "allows 16.0 GiB", "docker run --memory"),
    ("home", Status.PROBLEM, {"home": {"writable": False}}, "no directory of this user's", "OUTRIDER_HOME="),
    ("home", Status.PROBLEM, {"home": {"free_bytes": 2**20}}, "0.0 GiB free", "OUTRIDER_HOME="),
    ("home", Status.WARNING, {"home": {"file_system": "nfs4"}}, "nfs4", "OUTRIDER_HOME="),
    ("home", Status.NOTE, {"home": {"file_system": "tmpfs"}}, "tmpfs", "OUTRIDER_HOME="),
    ("cache", Status.PROBLEM, {"cache": {"writable": False}}, "no directory of this user's", "OUTRIDER_CACHE="),
    ("cache", Status.PROBLEM, {"cache": {"free_bytes": GIB // 2}}, "0.5 GiB free", "OUTRIDER_CACHE="),
    ("cache", Status.WARNING, {"cache": {"free_bytes": 5 * GIB}}, "5.0 GiB free", "OUTRIDER_CACHE="),
    ("cache", Status.NOTE, {"cache": {"file_system": "overlay"}}, "overlay", "volume"),
    ("sockets", Status.PROBLEM, {"sockets": Sockets(_LONG, 144, True)}, "144 of 107", "XDG_RUNTIME_DIR="),
    ("sockets", Status.PROBLEM, {"sockets": Sockets(Path("/run/x"), 30, False)}, "/run/x", "chown"),
    ("cgroup", Status.NOTE, {"quota_obstacle": "/sys/fs/cgroup cannot be written"}, "cannot be written", "systemd-run"),
    (
        "port 8080",
        Status.PROBLEM,
        {"ports": (Port("gateway", 8080, "taken", "nginx (pid 7)", 8082),)},
        "nginx (pid 7)",
        "outrider up --port 8082",
    ),
    (
        "port 8081",
        Status.PROBLEM,
        {"ports": (Port("controller", 8081, "taken", "nginx (pid 7)", 8083),)},
        "nginx (pid 7)",
        "outrider up --api-port 8083",
    ),
    (
        "clock",
        Status.PROBLEM,
        {"clock": Clock(datetime(1970, 1, 1, tzinfo=UTC), True, "tsc")},
        "1970-01-01",
        "timedatectl",
    ),
    (
        "clock",
        Status.PROBLEM,
        {"clock": Clock(datetime(2150, 1, 1, tzinfo=UTC), True, "tsc")},
        "2150-01-01",
        "timedatectl",
    ),
    ("clock", Status.NOTE, {"clock": {"synchronised": False}}, "not known to be", "timedatectl"),
    ("clock", Status.WARNING, {"clock": {"source": "hpet"}}, "hpet", "clocksource0/current_clocksource"),
    ("open files", Status.WARNING, {"open_files": OpenFiles(512, 512)}, "512 at most", "LimitNOFILE"),
    ("open files", Status.NOTE, {"open_files": OpenFiles(1024, None)}, "1,024 now", "ulimit -n 65536"),
    ("open files", Status.NOTE, {"open_files": OpenFiles(1024, 20000)}, "1,024 now", "ulimit -n 20000"),
    ("python", Status.WARNING, {"python": {"pip": False, "uv": None}}, "3.12.3", "ensurepip"),
]


@pytest.mark.parametrize(("check", "status", "changes", "found", "fix"), CASES)
def test_what_is_wrong_has_its_consequence_and_its_fix(
    check: str, status: Status, changes: dict[str, Any], found: str, fix: str
) -> None:
    findings = _changed(**changes)
    finding = findings.pop(check)
    assert finding.status is status
    assert found in finding.found
    assert finding.consequence
    assert fix in finding.fix
    assert {other.status for other in findings.values()} == {Status.OK}


def test_the_worst_is_what_counts() -> None:
    def finding(status: Status) -> Finding:
        return Finding("x", status, "y")

    assert worst([]) is Status.OK
    assert worst([finding(Status.NOTE), finding(Status.OK)]) is Status.NOTE
    assert worst([finding(Status.PROBLEM), finding(Status.WARNING), finding(Status.NOTE)]) is Status.PROBLEM


def test_a_synchronisation_nobody_knows_of_is_no_complaint() -> None:
    assert _changed(clock={"synchronised": None})["clock"].status is Status.OK
