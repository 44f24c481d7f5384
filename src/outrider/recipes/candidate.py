"""Which recipes could run on which hardware: every pair, or why a recipe has none. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.recipes.device import Device, counts, gpus_here, host, kinds, of_kind, same_kind
from outrider.recipes.gpus import gpu_facts, gpus
from outrider.recipes.schema import Provenance, Recipe, Speculation
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory

STANDING = ("measured", "published", "estimated", "untested")
"""From the best provenance to the worst: what was measured is preferred to what was not."""
_MOST = 16
"""GPUs of one machine, at most: what a wanted kind is tried with where the machine has none and no count is said."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One recipe on one device.

    Attributes:
        tested: the recipe was made for just that: same kind, same number.
        adapters: bytes of the endpoint's LoRA adapters, of those whose files are here.
        offered: the catalog's drafter, where what the endpoint brings was laid into the recipe; None: it was not.
    """

    recipe: Recipe
    device: Device
    tested: bool
    adapters: int = 0
    offered: Speculation | None = None

    def drafts_as_offered(self, speculation: Speculation) -> bool:
        """Whether it is the drafter that the recipe's figures were made with."""
        offered = self.offered or self.recipe.speculation
        return all(getattr(speculation, part) == getattr(offered, part) for part in ("method", "drafter", "tokens"))

    @property
    def label(self) -> str:
        """For people: on GPUs with the hardware, on a CPU the recipe's id alone."""
        return self.recipe.id if self.device.kind == "cpu" else f"{self.recipe.id} on {self.device}"

    def provenance(self) -> Provenance:
        """The recipe's; on other hardware than its own ``untested``, whatever it was there."""
        who = self.recipe.provenance
        if self.tested or who.status in ("estimated", "untested"):
            return who
        made = self.recipe.hardware
        note = f"{who.status} on {made.count} × {made.gpu}; nobody has run it on {self.device}"
        return Provenance(status="untested", when=who.when, url=who.url, note=note)


def pairs(endpoint: Endpoint, inventory: Inventory, recipes: Sequence[Recipe]) -> tuple[list[Pair], dict[str, str]]:
    """Every pair that the endpoint and the machine allow; and recipe → why there is none."""
    found: list[Pair] = []
    rejected: dict[str, str] = {}
    for recipe in recipes:
        reason = unfit(recipe, endpoint, inventory)
        if reason is not None:
            rejected[recipe.id] = reason
            continue
        devices = _devices(recipe, endpoint, inventory)
        if not devices:
            rejected[recipe.id] = _no_hardware(recipe, endpoint, inventory)
        found += [Pair(recipe, device, made_for(recipe, device)) for device in devices]
    return found, rejected


def nearest(found: Sequence[Pair]) -> list[Pair]:
    """Of recipes that differ only in the hardware they were made for, the one nearest to each device."""
    best: dict[tuple[str, ...], Pair] = {}
    for pair in found:
        recipe = pair.recipe
        key: tuple[str, ...] = (recipe.id,)
        if recipe.hardware.kind == "gpu":
            key = (recipe.engine.name, recipe.precision, recipe.profile, str(pair.device))
        if key not in best or _distance(pair) < _distance(best[key]):
            best[key] = pair
    return list(best.values())


def _distance(pair: Pair) -> tuple[bool, bool, int, str]:
    same = same_kind(pair.recipe.hardware.gpu or "", pair.device.name)
    return not pair.tested, not same, STANDING.index(pair.recipe.provenance.status), pair.recipe.id


def wanted(endpoint: Endpoint) -> tuple[str, int | None] | None:
    """Kind and number of GPUs that the endpoint asks for; the number may be left to the planner."""
    if endpoint.resources.gpu is None:
        return None
    name, _, count = endpoint.resources.gpu.partition(":")
    return name, int(count) if count else None


def devices_wanted(endpoint: Endpoint, inventory: Inventory) -> list[Device]:
    """The GPUs that a replica could have: of this machine, or of the kind that the endpoint asks for."""
    asked, fixed = wanted(endpoint), endpoint.flags.get("gpus")
    here = kinds(inventory)
    found: list[Device] = []
    if asked is None:
        for kind, have in here.items():
            found += [gpus_here(inventory, kind, count) for count in _numbers(have)]
    else:
        name, number = asked
        owned = next((own for own in here if same_kind(own, name)), None)
        have = here[owned] if owned else 0
        for count in [number] if number else _numbers(have or _MOST):
            if owned and count <= have:
                found.append(gpus_here(inventory, owned, count))
            elif (facts := gpu_facts(name)) is not None:
                found.append(of_kind(facts, name, count, memory=facts.memory_bytes, here=False))
    return [device for device in found if fixed in (None, device.count)]


def obstacles(device: Device, inventory: Inventory) -> tuple[str, ...]:
    """Why no replica can start here."""
    if device.here:
        return ()
    have = kinds(inventory).get(device.name, 0)
    return (f"it needs {device}; this machine has {have}",)


def unfit(recipe: Recipe, endpoint: Endpoint, inventory: Inventory) -> str | None:
    """What keeps a recipe from any hardware; None: nothing does."""
    if endpoint.engine and endpoint.engine != recipe.engine.name:
        return f"its engine is {recipe.engine.name}, you asked for {endpoint.engine}"
    if endpoint.task not in recipe.tasks:
        return f"it does not serve the task {endpoint.task}"
    if recipe.hardware.nodes > 1:
        return f"it needs {recipe.hardware.nodes} nodes; placement {inventory.placement} is one machine"
    if recipe.hardware.kind == "cpu" and endpoint.resources.gpu:
        return f"it is made for CPUs, you asked for {endpoint.resources.gpu}"
    return None


def _devices(recipe: Recipe, endpoint: Endpoint, inventory: Inventory) -> list[Device]:
    if recipe.hardware.kind == "cpu":
        threads = endpoint.flags.get("threads") or (recipe.flags["threads"].value if "threads" in recipe.flags else 0)
        return [host(inventory, int(threads) or None)]
    found = [d for d in devices_wanted(endpoint, inventory) if _vendor(d.name) == _vendor(recipe.hardware.gpu or "")]
    found = [d for d in found if computes(recipe.precision, d.name)]
    return [d for d in found if recipe.hardware.count == d.count or divides(recipe.model.facts, d.count)]


def _no_hardware(recipe: Recipe, endpoint: Endpoint, inventory: Inventory) -> str:
    made = recipe.hardware
    have = sum(count for kind, count in kinds(inventory).items() if same_kind(kind, made.gpu or ""))
    asked, fixed = wanted(endpoint), endpoint.flags.get("gpus")
    if asked and gpu_facts(asked[0]) is None:
        names = [kind.name for kind in gpus()]
        near = difflib.get_close_matches(asked[0].upper(), names, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"nothing is known of the GPU {asked[0]}{hint}; known: {', '.join(names)}"
    if asked and fixed is not None and asked[1] not in (None, fixed):
        return f"flags.gpus is {fixed}, resources.gpu {endpoint.resources.gpu}"
    if names := [name for name in ([asked[0]] if asked else kinds(inventory)) if not computes(recipe.precision, name)]:
        return f"its weights are {recipe.precision}, and {' and '.join(names)} cannot compute with 4-bit floats"
    if asked and _vendor(asked[0]) == _vendor(made.gpu or "") and recipe.model.facts.heads:
        return f"its {recipe.model.facts.heads} heads cannot be divided among {asked[1] or fixed} GPUs"
    others = " of these" if inventory.gpus else ""
    return f"it needs {made.count} × {made.gpu}; this machine has {have}{others}"


def made_for(recipe: Recipe, device: Device) -> bool:
    """Whether a recipe names just this hardware."""
    made = recipe.hardware
    return made.kind == device.kind == "cpu" or (
        made.kind == device.kind and made.count == device.count and same_kind(made.gpu or "", device.name)
    )


def _numbers(have: int) -> list[int]:
    return sorted({*counts(have), have}) if have else []


def divides(facts: ModelFacts, count: int) -> bool:
    """Whether the heads can be divided among GPUs; what is not known is not in the way."""
    return facts.heads is None or facts.heads % count == 0


def computes(precision: str | None, gpu: str) -> bool:
    """Whether a kind of GPU computes with weights of a precision, as far as its table says: NVFP4 came with Blackwell.
    (MXFP4, gpt-oss's, is served on older ones, which unpack it.)"""
    kind = gpu_facts(gpu)
    return precision != "nvfp4" or kind is None or kind.fp4 is not None


def _vendor(name: str) -> str:
    return "amd" if name.upper().startswith("MI") or "INSTINCT" in name.upper() else "nvidia"
