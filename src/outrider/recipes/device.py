"""The hardware one replica could have: some GPUs of one kind, or the machine's own cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from outrider.models.precision import Rate
from outrider.recipes.gpus import GpuFacts, cpu, gpu_facts
from outrider.spec.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Device:
    """Hardware of one replica.

    Attributes:
        kind: gpu or cpu.
        name: kind of GPU as the table names it, or else as its driver does; ``CPU``.
        count: GPUs; of a CPU cores.
        memory_bytes: of each GPU; of a CPU the host's.
        bandwidth: bytes a second of each GPU, of a CPU all cores together; None: not known.
        rates: operations a second of each GPU by precision, of a CPU all cores together; empty: not known.
        usd_per_hour: price of all of it; None: not known.
        here: whether this machine has it.
        doubt: what of these figures nobody knows of this machine, in words; empty: nothing.
    """

    kind: Literal["gpu", "cpu"]
    name: str
    count: int
    memory_bytes: int
    bandwidth: float | None
    rates: dict[Rate, float]
    usd_per_hour: float | None
    here: bool = True
    doubt: str = ""

    def __str__(self) -> str:
        """As people write it: ``2 × H200``, ``CPU, 4 cores``."""
        if self.kind == "cpu":
            return f"CPU, {self.count} core{'' if self.count == 1 else 's'}"
        return f"{self.count} × {self.name}"

    @property
    def gpus(self) -> int:
        """GPUs; none of a CPU."""
        return self.count if self.kind == "gpu" else 0

    @property
    def split(self) -> int:
        """Parts that the model is divided into."""
        return self.count if self.kind == "gpu" else 1


def host(inventory: Inventory, threads: int | None = None) -> Device:
    """The machine's memory, and those of its cores that ``threads`` threads keep busy (None: all)."""
    row, cores = cpu(), max(1, min(inventory.cores, threads or inventory.cores))
    bandwidth = min(inventory.memory_bandwidth or row.bandwidth_most, cores * row.bandwidth_per_core)
    rates: dict[Rate, float] = {"bf16": cores * row.rate_per_core}
    doubt = f"memory read at {bandwidth / 1e9:.3g} GB/s, which nobody measured on this machine"
    if inventory.memory_bandwidth is not None:
        doubt = ""
    price = cores * row.usd_per_core_hour
    return Device("cpu", "CPU", cores, inventory.memory_bytes, bandwidth, rates, price, doubt=doubt)


def kinds(inventory: Inventory) -> dict[str, int]:
    """How many GPUs of each kind the machine has, by the table's name or, where it has none, the driver's."""
    found: dict[str, int] = {}
    for gpu in inventory.gpus:
        name = _kind(gpu.name)
        found[name] = found.get(name, 0) + 1
    return found


def gpus_here(inventory: Inventory, kind: str, count: int) -> Device:
    """GPUs of this machine, with the memory of the smallest of its kind."""
    memory = min(gpu.memory_bytes for gpu in inventory.gpus if _kind(gpu.name) == kind)
    return of_kind(gpu_facts(kind), kind, count, memory=memory)


def of_kind(facts: GpuFacts | None, name: str, count: int, *, memory: int, here: bool = True) -> Device:
    """GPUs of a kind; ``facts`` None: nothing but their memory is known."""
    if facts is None:
        return Device("gpu", name, count, memory, None, {}, None, here)
    rates: dict[Rate, float] = {"bf16": facts.bf16}
    if facts.fp8:
        rates["fp8"] = facts.fp8
    if facts.fp4:
        rates["fp4"] = facts.fp4
    price = None if facts.usd_per_hour is None else count * facts.usd_per_hour
    return Device("gpu", facts.name, count, memory, facts.bandwidth, rates, price, here)


def same_kind(one: str, other: str) -> bool:
    """Whether two names mean one kind of GPU."""
    return _kind(one).lower() == _kind(other).lower()


def counts(most: int) -> tuple[int, ...]:
    """Numbers of GPUs that a model is divided among: powers of two, since heads are."""
    return tuple(count for count in (1, 2, 4, 8, 16) if count <= most)


def _kind(name: str) -> str:
    facts = gpu_facts(name)
    return facts.name if facts else name
