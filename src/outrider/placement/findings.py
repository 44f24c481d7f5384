"""What a machine's facts mean for Outrider: one finding a check, each with its consequence and its fix. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from outrider.placement.machine import Clock, Directory, Machine, Memory, OpenFiles, Port, Processor, Sockets

_GIB = 2**30
_SOCKET_LIMIT = 107
"""Bytes of a Unix socket's path (unix(7): 108 with the final zero)."""
_FREE_LEAST, _FREE_WANTED = 1 * _GIB, 10 * _GIB
"""Free disk under the cache below which small models already fail, and below which ordinary ones do."""
_STORE_LEAST = 64 * 2**20
"""Free disk under the home: room for the store's write-ahead log and some logs."""
_MEMORY_WANTED = 2 * _GIB
"""Available memory below which even a small model with its caches may not start."""
_FILES_LEAST, _FILES_WANTED = 1024, 8192
_FILES_RAISED = 65536
"""Descriptors: a streamed request holds two (client, engine), so these are 500, 4,000 and 32,000 requests at once."""
_EARLIEST, _LATEST = datetime(2026, 11, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
"""This version did not exist before the first; the second is what a clock without a battery may wake up with."""
_SLOW_SOURCES = ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies")
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "ceph", "glusterfs")


class Status(StrEnum):
    """How much a finding matters, from nothing to what stops Outrider or an engine that is installed."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check.

    Attributes:
        check: what was looked at, a word or two.
        status: see :class:`Status`.
        found: what was seen.
        consequence: what cannot run or suffers, and why; empty where nothing does.
        fix: a command to copy, or a step; empty where nothing needs one.
    """

    check: str
    status: Status
    found: str
    consequence: str = ""
    fix: str = ""


def worst(findings: Iterable[Finding]) -> Status:
    """The status that matters most; ok for none."""
    return max((finding.status for finding in findings), key=list(Status).index, default=Status.OK)


def machine_findings(machine: Machine) -> tuple[Finding, ...]:
    """Everything but GPUs and engines, which :mod:`outrider.placement.engine_findings` judges."""
    return (
        _cores(machine.processor),
        _memory(machine.memory),
        _home(machine.home),
        _cache(machine.cache),
        _sockets(machine.sockets),
        _quota(machine),
        *(_port(port) for port in machine.ports),
        _clock(machine.clock),
        _open_files(machine.open_files),
        _python(machine),
    )


def _cores(processor: Processor) -> Finding:
    smt = {True: "SMT on", False: "SMT off", None: "SMT not known"}[processor.smt]
    quota = "no quota" if processor.quota is None else f"a quota of {processor.quota:g}"
    found = (
        f"{processor.usable} of {processor.count} cores, {quota}, {smt}; {processor.model}, {processor.architecture}"
    )
    if processor.quota is not None and processor.quota < processor.usable:
        return Finding(
            "cores",
            Status.WARNING,
            found,
            f"the cgroup stops this process after {processor.quota:g} cores' worth of time: with more threads than that"
            " an engine stalls in every period",
            f"Start engines with at most {max(1, int(processor.quota))} threads (flags.threads), or raise the"
            " container's quota (docker run --cpus, or resources.limits.cpu).",
        )
    if processor.usable < 2:
        text = "gateway, controller and engine share one core: times to first token suffer from one another"
        return Finding("cores", Status.NOTE, found, text, "Give this machine or container two cores or more.")
    if processor.smt:
        text = "two logical cores share a physical one: engine threads beyond half of them add little"
        return Finding("cores", Status.NOTE, found, text, f"Keep flags.threads at {processor.usable // 2} or fewer.")
    return Finding("cores", Status.OK, found)


def _memory(memory: Memory) -> Finding:
    limit = "no cgroup limit" if memory.limit is None else f"the cgroup allows {_gib(memory.limit)}"
    found = f"{_gib(memory.total)}, {_gib(memory.available)} available now, {limit}"
    usable = min(memory.available, memory.limit or memory.available)
    if usable < _MEMORY_WANTED:
        return Finding(
            "memory",
            Status.WARNING,
            found,
            f"only {_gib(usable)} can be used now: engines are killed by the kernel when they ask for more",
            "End what uses it (ps aux --sort=-rss | head), or give this machine or container more.",
        )
    if memory.limit is not None and memory.limit < memory.total:
        text = f"plans are made for the {_gib(memory.limit)} of the cgroup, not for the machine's memory"
        return Finding(
            "memory", Status.NOTE, found, text, "Raise the container's limit (docker run --memory) for more."
        )
    return Finding("memory", Status.OK, found)


def _home(home: Directory) -> Finding:
    found = _described(home)
    if not home.writable:
        return _unwritable("home", home)
    if home.file_system in _REMOTE:
        text = "the store is SQLite, whose locks are not safe on a network's file system"
        return Finding("home", Status.WARNING, found, text, f"export {home.variable}=/a/local/directory")
    if home.free_bytes < _STORE_LEAST:
        text = "the store, logs and revisions go there: nothing more can be remembered"
        return Finding("home", Status.PROBLEM, found, text, f"Free some, or: export {home.variable}=/another/directory")
    return _passing("home", home, "endpoints, revisions and keys are") or Finding("home", Status.OK, found)


def _cache(cache: Directory) -> Finding:
    found = _described(cache)
    if not cache.writable:
        return _unwritable("cache", cache)
    move = f"Free some, or: export {cache.variable}=/a/larger/disk"
    if cache.free_bytes < _FREE_LEAST:
        text = "weights and engine environments go there: hardly any fits"
        return Finding("cache", Status.PROBLEM, found, text, move)
    if cache.free_bytes < _FREE_WANTED:
        text = "an 8B model in 8 bits or an environment of vLLM takes 4 to 10 GiB: not both fit"
        return Finding("cache", Status.WARNING, found, text, move)
    return _passing("cache", cache, "weights are") or Finding("cache", Status.OK, found)


def _passing(check: str, directory: Directory, what: str) -> Finding | None:
    """A file system that does not last."""
    reasons = {
        "tmpfs": f"{what} kept in memory, counted as such, and gone after a restart of the machine",
        "ramfs": f"{what} kept in memory, counted as such, and gone after a restart of the machine",
        "overlay": f"{what} gone when this container is removed",
    }
    if directory.file_system not in reasons:
        return None
    fix = f"Mount a volume there, or: export {directory.variable}=/a/directory/that/stays"
    return Finding(check, Status.NOTE, _described(directory), reasons[directory.file_system], fix)


def _unwritable(check: str, directory: Directory) -> Finding:
    return Finding(
        check,
        Status.PROBLEM,
        f"{_described(directory)}; {directory.nearest} is no directory of this user's to write in",
        "nothing can be started: Outrider has nowhere to put it",
        f"export {directory.variable}=/a/directory/of/yours, or: sudo chown $(id -u) {directory.nearest}",
    )


def _described(directory: Directory) -> str:
    there = "" if directory.nearest == directory.path else " (not made yet)"
    return f"{directory.path}{there}, {directory.file_system}, {_gib(directory.free_bytes)} free"


def _sockets(sockets: Sockets) -> Finding:
    found = f"{sockets.path}, the longest path takes {sockets.longest} of {_SOCKET_LIMIT} bytes"
    if sockets.longest > _SOCKET_LIMIT:
        text = "the kernel refuses longer paths: the controller cannot listen, replicas cannot be reached"
        return Finding("sockets", Status.PROBLEM, found, text, "export XDG_RUNTIME_DIR=/run/user/$(id -u)")
    if not sockets.writable:
        text = "this user cannot make sockets there: the controller cannot listen"
        fix = f"sudo chown $(id -u) {sockets.path}, or: export XDG_RUNTIME_DIR=/a/short/directory/of/yours"
        return Finding("sockets", Status.PROBLEM, found, text, fix)
    return Finding("sockets", Status.OK, found)


def _quota(machine: Machine) -> Finding:
    if machine.quota_obstacle is None:
        return Finding("cgroup", Status.OK, "writable: resources.cpu is enforced")
    return Finding(
        "cgroup",
        Status.NOTE,
        machine.quota_obstacle,
        "resources.cpu is not enforced: a replica may take every core",
        "Run outrider up as root, or bound all of it: systemd-run --user --scope -p CPUQuota=200% outrider up",
    )


def _port(port: Port) -> Finding:
    check = f"port {port.number}"
    option, variable = ("--port", "OUTRIDER_PORT") if port.purpose == "gateway" else ("--api-port", "OUTRIDER_API_PORT")
    if port.state == "free":
        return Finding(check, Status.OK, f"free for the {port.purpose}")
    if port.state == "ours":
        return Finding(check, Status.OK, f"this Outrider's {port.purpose} listens there")
    other = port.instead or "ANOTHER"
    return Finding(
        check,
        Status.PROBLEM,
        f"taken by {port.holder}",
        f"outrider up cannot start its {port.purpose} there",
        f"outrider up {option} {other} (and for endpoint create: export {variable}={other})",
    )


def _clock(clock: Clock) -> Finding:
    kept = {True: "synchronised", False: "not known to be synchronised", None: "synchronisation not known"}
    found = f"{clock.now:%Y-%m-%d %H:%M} UTC, {kept[clock.synchronised]}, read from {clock.source}"
    if not _EARLIEST <= clock.now <= _LATEST:
        text = "that cannot be today: certificates fail, so no weights are downloaded, and keys expire wrongly"
        return Finding("clock", Status.PROBLEM, found, text, "sudo timedatectl set-ntp true")
    if clock.source in _SLOW_SOURCES:
        text = "reading the time takes microseconds there, and the gateway reads it several times a request"
        return Finding(
            "clock",
            Status.WARNING,
            found,
            text,
            "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
    if clock.synchronised is False:
        text = "events and key expiry follow this clock; durations do not. A virtual machine may get it from its host"
        return Finding(
            "clock", Status.NOTE, found, text, "sudo timedatectl set-ntp true (on the host, for a container)"
        )
    return Finding("clock", Status.OK, found)


def _open_files(files: OpenFiles) -> Finding:
    most = "as many as wanted" if files.hard is None else f"{files.hard:,} at most"
    found = f"{files.soft:,} now, {most}"
    if files.soft >= _FILES_WANTED:
        return Finding("open files", Status.OK, found)
    fix = f"ulimit -n {min(files.hard or _FILES_RAISED, _FILES_RAISED)}  # then outrider up from the same shell"
    if files.hard is not None and files.hard < _FILES_WANTED:
        fix = "Raise the hard limit: LimitNOFILE=65536 in systemd, docker run --ulimit nofile=65536, or limits.conf"
    status = Status.WARNING if files.soft < _FILES_LEAST else Status.NOTE
    text = f"the gateway takes two a request: enough for some {files.soft // 2:,} requests at once"
    return Finding("open files", status, found, text, fix)


def _python(machine: Machine) -> Finding:
    python = machine.python
    uv = f"uv at {python.uv}" if python.uv else "uv is fetched when an environment needs it"
    found = f"{'.'.join(map(str, python.version))}, {python.executable}, {uv}"
    if python.uv is None and not python.pip:
        text = "engines that want an environment of their own cannot get one: there is no uv, and no pip to fetch it"
        found = f"{'.'.join(map(str, python.version))}, {python.executable}"
        return Finding("python", Status.WARNING, found, text, f"{python.executable} -m ensurepip")
    return Finding("python", Status.OK, found)


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f} GiB"
