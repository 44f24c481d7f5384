"""What the GPUs and engines of a machine mean for Outrider: findings as in :mod:`outrider.placement.findings`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from outrider.engines.builds import Build, builds, packages, pinned
from outrider.engines.flags import ordered
from outrider.placement.findings import Finding, Status
from outrider.placement.machine import InstalledEngine, Machine
from outrider.placement.nvidia import Nvidia

_EXTRAS = {"llamacpp": "pip install 'outrider[cpu]'"}
"""How an engine comes into Outrider's own Python."""


def engine_findings(machine: Machine) -> tuple[Finding, ...]:
    """GPUs first, then each engine, once a Python that has it."""
    found = [_gpus(machine.nvidia)]
    for engine in dict.fromkeys(build.engine for build in builds()):
        there = [installed for installed in machine.engines if installed.engine == engine]
        found += [_installed(installed, machine) for installed in there] or [_missing(engine, machine)]
    return tuple(found)


def hindrance(machine: Machine, requirements: Sequence[str]) -> tuple[str, str] | None:
    """Why an environment of these requirements does not start on this machine, and the fix: a processor, a driver or a
    wheel that is missing. Known without a look at any package index; None: nothing is known to be in the way.

    What is pinned says it of its own version and of newer ones, which need no less.
    """
    for wanted in requirements:
        package, _, version = wanted.partition("==")
        known = [build for build in builds() if build.package == package]
        pin = _pinned(package, machine)
        if known and pin is None:
            python = ".".join(map(str, machine.python.version[:2]))
            platform = f"{machine.processor.architecture} and Python {python}"
            return f"no wheel of {package} is known for {platform}", _docs()
        newer = pin is not None and (not version or ordered(version) >= ordered(pin.version))
        if pin is not None and newer and (lacking := _lacks(pin, machine)) is not None:
            return lacking
    return None


def _gpus(nvidia: Nvidia) -> Finding:
    if nvidia.silent:
        return Finding(
            "gpus",
            Status.PROBLEM,
            "; ".join(nvidia.silent),
            "a GPU that does not answer its driver runs nothing, and may stall engines on the others",
            "See why: sudo dmesg | grep -i xid; then restart the machine.",
        )
    if nvidia.gpus:
        names = [f"{gpu.name} ({gpu.memory_bytes / 2**30:.0f} GiB)" for gpu in nvidia.gpus]
        counted = [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
        return Finding("gpus", Status.OK, f"{', '.join(counted)}; driver {nvidia.driver} runs CUDA {nvidia.cuda}")
    if nvidia.on_bus:
        return Finding(
            "gpus",
            Status.WARNING,
            f"{nvidia.on_bus} on the PCI bus, but {nvidia.absence}",
            "recipes for GPUs cannot run although the hardware is here",
            "Install NVIDIA's driver and restart; in a container: docker run --gpus all (nvidia-container-toolkit).",
        )
    return Finding(
        "gpus",
        Status.NOTE,
        f"none: {nvidia.absence}",
        "recipes for GPUs cannot run; those for CPUs can",
        "Use a machine with an NVIDIA GPU and its driver where a recipe needs one (docs/support.md).",
    )


def _missing(engine: str, machine: Machine) -> Finding:
    if engine in _EXTRAS:
        text = "recipes for it cannot run, unless they bring an environment of their own"
        return Finding(engine, Status.WARNING, "not installed", text, _EXTRAS[engine])
    text = "recipes for it build an environment of their own when they are first used; none is there yet"
    here = [_pinned(package, machine) for package in packages(engine)]
    usable = [build for build in here if build is not None and (machine.nvidia.gpus or build.cuda is None)]
    if not usable:
        return Finding(engine, Status.NOTE, "not installed", f"{text}, and no pinned build runs here", _docs())
    fix = f"Environment(packages=['{usable[0].package}=={usable[0].version}']) in serve.py"
    return Finding(engine, Status.NOTE, "not installed", text, fix)


def _installed(seen: InstalledEngine, machine: Machine) -> Finding:
    where = "Outrider's own Python" if seen.own else str(seen.python)
    found = f"{seen.package} {seen.version} in {where}"
    pin = _pinned(seen.package, machine)
    trouble = _lacks(pin, machine) if pin is not None else None
    if trouble is not None:
        return Finding(seen.engine, Status.PROBLEM, found, *trouble)
    if seen.trouble is not None:
        text = f"it cannot be imported, so no replica of it starts: {seen.trouble}"
        return Finding(seen.engine, Status.PROBLEM, found, text, _reinstall(seen, pin))
    if pin is None:
        text = f"no build of it is pinned for {machine.processor.architecture} and this Python: nobody tried this one"
        return Finding(seen.engine, Status.NOTE, found, text, _docs())
    if seen.version != pin.version:
        text = f"recipes were made with {pin.version}, and flags drift between versions"
        return Finding(seen.engine, Status.WARNING, found, text, _reinstall(seen, pin))
    whose = ", a third-party build" if pin.third_party else ""
    return Finding(seen.engine, Status.OK, f"{found}, as pinned{whose}; {pin.status.replace('`', '')}")


def _lacks(pin: Build, machine: Machine) -> tuple[str, str] | None:
    """What this machine lacks for a build (consequence, fix)."""
    processor, nvidia = machine.processor, machine.nvidia
    # An empty list of flags says nothing: some kernels hide them.
    if processor.flags and (lacking := [flag for flag in pin.cpu if flag not in processor.flags]):
        text = f"this processor has no {', '.join(lacking).upper()}: the engine is ended by SIGILL at its first step"
        return text, "Use a processor that has it, or compile the engine for this one."
    if pin.cuda and not nvidia.gpus:
        return f"it needs a GPU: {nvidia.absence}", "Use a machine with an NVIDIA GPU and its driver."
    if pin.cuda and nvidia.cuda and _numbers(nvidia.cuda) < _numbers(pin.cuda):
        text = f"it needs CUDA {pin.cuda}; driver {nvidia.driver} runs {nvidia.cuda} at most, so it does not start"
        return text, f"Update the NVIDIA driver to one that runs CUDA {pin.cuda}, and restart."
    return None


def _pinned(package: str, machine: Machine) -> Build | None:
    return pinned(package, machine.processor.architecture, machine.python.version[:2])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _reinstall(seen: InstalledEngine, pin: Build | None) -> str:
    if not seen.own:
        return f"rm -r {seen.python.parent.parent}; it is built anew when it is next needed"
    version = pin.version if pin is not None else seen.version
    return f"{seen.python} -m pip install --force-reinstall --no-deps {seen.package}=={version}"


def _docs() -> str:
    return "See docs/support.md: what each build needs, and what this version runs."


def broken(engines: Iterable[InstalledEngine]) -> dict[str, str]:
    """Engine → why it does not import, for those in Outrider's own Python."""
    return {seen.engine: seen.trouble for seen in engines if seen.own and seen.trouble is not None}
