"""What the planner makes of an intent, beside the configuration that somebody published for it. Pure.

Each pair of ``pairs.yaml`` is planned as its user would ask, with neither recipe nor engine nor number of GPUs named.
Where the plan has other GPUs or another engine than the source, that is a difference; the rest is then compared with
the plan for the source's GPUs and engine, since flags of two engines cannot be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from outrider.engines.flags import ordered
from outrider.recipes.commands import Drafting, read_command
from outrider.recipes.gpus import gpu_facts
from outrider.recipes.library import Catalog
from outrider.recipes.plan import Plan
from outrider.recipes.planner import plan
from outrider.spec.endpoint import Endpoint, parse
from outrider.spec.inventory import Gpu, Inventory

PAIRS = Path(__file__).with_name("pairs.yaml")
_HOST = {"cores": 64, "memory_bytes": 2**41, "disk_free_bytes": 2**43}
NONE = "–"
"""What stands where one side says nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that plan and source say differently.

    Attributes:
        what: ``GPUs``, ``engine``, ``version``, ``weights``, ``drafter``, ``flag NAME``, ``variable NAME``, or the
            source's ``words`` that no recipe has a place for.
        published, planned: as text; :data:`NONE` where that side leaves it to the engine.
        why: the written explanation; None: nobody has explained it.
    """

    what: str
    published: str
    planned: str
    why: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pair.

    Attributes:
        name: of the pair.
        machine: what it is planned on, ``8 × H200``.
        said: the source's configuration, as ``pairs.yaml`` has it.
        spec: what the user asks for.
        recipe: that the planner chose, with nothing forced.
        same: what both say alike, ``name=value``.
        differences: everything else.
        idle: explanations of differences that there are not.
    """

    name: str
    machine: str
    said: Mapping[str, Any]
    spec: Mapping[str, Any]
    recipe: str
    same: tuple[str, ...]
    differences: tuple[Difference, ...]
    idle: tuple[str, ...]

    @property
    def unexplained(self) -> tuple[Difference, ...]:
        """Differences without an explanation."""
        return tuple(one for one in self.differences if one.why is None)


@cache
def pairs() -> tuple[Mapping[str, Any], ...]:
    """The file's rows."""
    return tuple(yaml.safe_load(PAIRS.read_text(encoding="utf-8")))


def compare(row: Mapping[str, Any], catalog: Catalog) -> Comparison:
    """Plan a pair and list what differs."""
    said, machine = row["published"], row["machine"]
    endpoint, inventory = parse(row["spec"]), _inventory(machine)
    free = plan(endpoint, inventory, catalog)
    found = {"GPUs": (said["gpus"], free.hardware), "engine": (said["engine"], free.engine)}
    alike = _like_the_source(endpoint, said, free, inventory, catalog)
    command = read_command(said["engine"], said["command"])
    if command.unknown:
        found["words"] = ("; ".join(command.unknown), NONE)
    found |= {"version": _versions(said, alike), "weights": (command.model or "", _weights(alike))}
    found |= {"drafter": (_drafter(command.drafting), _speculation(alike))}
    found |= _sides("flag", command.flags, {flag.name: flag.value for flag in alike.flags})
    found |= _sides("variable", said.get("env", {}), alike.environment.env)
    why = row.get("differences", {})
    unlike = {what: sides for what, sides in found.items() if sides[0] != sides[1]}
    return Comparison(
        name=row["pair"],
        machine=machine,
        said=said,
        spec=row["spec"],
        recipe=free.recipe,
        same=tuple(f"{what.removeprefix('flag ')}={a}" for what, (a, b) in found.items() if a == b),
        differences=tuple(Difference(what, *sides, why.get(what)) for what, sides in unlike.items()),
        idle=tuple(what for what in why if what not in unlike),
    )


def _inventory(machine: str) -> Inventory:
    """``8 × H200`` as a machine."""
    count, _, name = machine.partition(" × ")
    kind = gpu_facts(name)
    if kind is None:
        raise ValueError(f"nothing is known of the GPU {name}")
    return Inventory(gpus=(Gpu(name=kind.name, memory_bytes=kind.memory_bytes),) * int(count), **_HOST)


def _like_the_source(
    endpoint: Endpoint, said: Mapping[str, Any], free: Plan, inventory: Inventory, catalog: Catalog
) -> Plan:
    """The plan with the source's engine and GPUs, where it is another."""
    if (said["gpus"], said["engine"]) == (free.hardware, free.engine):
        return free
    count, _, name = said["gpus"].partition(" × ")
    resources = endpoint.resources.model_copy(update={"gpu": f"{name}:{count}"})
    forced = endpoint.model_copy(update={"engine": said["engine"], "resources": resources})
    return plan(forced, inventory, catalog)


def _versions(said: Mapping[str, Any], made: Plan) -> tuple[str, str]:
    """Equal where the plan's is not older than the oldest that the source asks for."""
    least = said.get("least_version")
    if least is not None and ordered(made.engine_version) >= ordered(least):
        return made.engine_version, made.engine_version
    return str(said.get("version", f"≥ {least}" if least else made.engine_version)), made.engine_version


def _weights(made: Plan) -> str:
    return made.weights.sources[0].removeprefix("hf:").partition("@")[0]


def _drafter(drafting: Drafting | None) -> str:
    if drafting is None:
        return NONE
    model = f" {drafting.model}" if drafting.model else ""
    return f"{drafting.method}{model}, {drafting.tokens} tokens"


def _speculation(made: Plan) -> str:
    chosen = made.speculation
    if chosen.method == "off":
        return NONE
    return _drafter(Drafting(chosen.method, (chosen.drafter or "").removeprefix("hf:") or None, chosen.tokens))


def _sides(kind: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What either side sets; one GPU is what engines take without being told."""
    names: Iterable[str] = dict.fromkeys([*ours, *theirs])
    usual = {"gpus": 1}
    return {
        f"{kind} {name}": (_text(ours.get(name, usual.get(name))), _text(theirs.get(name, usual.get(name))))
        for name in names
    }


def _text(value: object) -> str:
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(json.loads(value))
    return NONE if value is None else str(value)
