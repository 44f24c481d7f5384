"""A LoRA adapter: its facts, read from ``adapter_config.json`` and safetensors headers, and whether it fits a base."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outrider.errors import AdapterUnfit
from outrider.models.safetensors import Tensor, read_all, read_object
from outrider.spec.facts import ModelFacts

MOST_RANK = 512
"""The largest rank that an engine here takes (vLLM's ``--max-lora-rank``)."""
_FACTOR = re.compile(r"(?:base_model\.model\.)?(?P<module>.+?)\.lora_(?P<side>[AB])(?:\.default)?\.weight")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class AdapterFacts:
    """What an adapter's files say.

    Attributes:
        name: the directory's.
        base: the model it was trained on, as its config names it; None: it does not.
        kind: ``peft_type``, in capitals.
        rank: the largest of its modules.
        targets: modules that it changes, by the last part of their names.
        dora: it has magnitudes, too, which no engine here applies.
        tensors: by name.
    """

    name: str
    base: str | None
    kind: str
    rank: int
    targets: tuple[str, ...]
    dora: bool = False
    tensors: Mapping[str, Tensor] = field(default_factory=dict, repr=False)


def read_adapter(path: Path) -> AdapterFacts:
    """The facts of a directory with ``adapter_config.json`` and ``adapter_model.safetensors`` (PEFT's layout).

    Raises:
        WeightsUnreadable: no config, or a damaged file.
        AdapterUnfit: what is there is no LoRA adapter.
    """
    config = read_object(path / "adapter_config.json", "Give the directory that PEFT's save_pretrained wrote.")
    files = sorted(path.glob("adapter_model*.safetensors"))
    if not files:
        raise AdapterUnfit(
            f"{path.name} has no adapter_model.safetensors",
            why="other formats run code when they are read",
            remedy="Save it as safetensors: PEFT does by default.",
        )
    ranks = [config.get("r"), *(config.get("rank_pattern") or {}).values()]
    whole = [rank for rank in ranks if isinstance(rank, int) and not isinstance(rank, bool) and rank > 0]
    tensors = read_all(files)
    base = config.get("base_model_name_or_path")
    return AdapterFacts(
        name=path.name,
        base=base if isinstance(base, str) and base else None,
        kind=str(config.get("peft_type", "")).upper(),
        rank=max(whole, default=0),
        targets=tuple(sorted({module.rpartition(".")[2] for module in _modules(tensors)})),
        dora=bool(config.get("use_dora")),
        tensors=tensors,
    )


def check(adapter: AdapterFacts, base: ModelFacts) -> list[str]:
    """Why it cannot be used on this base, a line each; empty: nothing that its files show."""
    found = []
    if adapter.kind != "LORA":
        found.append(f"its peft_type is {adapter.kind or 'not said'}, only LORA is served")
    if adapter.dora:
        found.append("it is a DoRA adapter, whose magnitudes no engine here applies")
    if not 1 <= adapter.rank <= MOST_RANK:
        found.append(f"its rank {adapter.rank} is not between 1 and {MOST_RANK}")
    if not adapter.targets:
        found.append("it changes no module: its file has no lora_A and lora_B")
    found += _layers(adapter, base)
    found += _shapes(adapter, base)
    return found


def refuse(adapter: AdapterFacts, name: str, base: ModelFacts) -> None:
    """Raises AdapterUnfit with everything that :func:`check` finds."""
    if found := check(adapter, base):
        raise AdapterUnfit(
            f"The adapter {name!r} does not fit {base.source}",
            why="; ".join(found),
            remedy=f"Use one that was trained on this model{_trained(adapter)}.",
            details={"adapter": name, "findings": found},
        )


def _trained(adapter: AdapterFacts) -> str:
    return f"; this one names {adapter.base}" if adapter.base else ""


def _layers(adapter: AdapterFacts, base: ModelFacts) -> Iterator[str]:
    numbers = {int(found[1]) for name in adapter.tensors if (found := _LAYER.search(name))}
    if base.layers is not None and numbers and max(numbers) >= base.layers:
        yield f"it changes layer {max(numbers)}, the base has {base.layers} (0 to {base.layers - 1})"


def _shapes(adapter: AdapterFacts, base: ModelFacts) -> Iterator[str]:
    """Factors that do not go together, or whose outer width is not the base's; the first of each kind."""
    pairs: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, tensor in adapter.tensors.items():
        if found := _FACTOR.fullmatch(name):
            pairs.setdefault(found["module"], {})[found["side"]] = tensor.shape
    seen: set[str] = set()
    for module, sides in pairs.items():
        short = module.rpartition(".")[2]
        wrong = _pair(sides) or _width(short, sides, base)
        if wrong and short not in seen:
            seen.add(short)
            yield f"{short}: {wrong}"


def _pair(sides: Mapping[str, tuple[int, ...]]) -> str | None:
    if set(sides) != {"A", "B"}:
        return f"it has lora_{''.join(sides)} alone"
    a, b = sides["A"], sides["B"]
    if len(a) != 2 or len(b) != 2 or a[0] != b[1]:
        return f"lora_A {list(a)} and lora_B {list(b)} cannot be multiplied"
    return None


def _width(module: str, sides: Mapping[str, tuple[int, ...]], base: ModelFacts) -> str | None:
    hidden, inner = base.hidden_size, base.ffn_size
    reads: dict[str, int | None] = dict.fromkeys(("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), hidden)
    writes: dict[str, int | None] = {"o_proj": hidden, "down_proj": hidden}
    if base.experts is None:
        writes |= {"gate_proj": inner, "up_proj": inner}
        reads["down_proj"] = inner
    if base.heads and base.kv_heads and base.head_dim and base.kv_lora_rank is None and not base.window_head_dim:
        kv = base.kv_heads * base.head_dim
        writes |= {"k_proj": kv, "v_proj": kv} if not base.window_kv_heads else {}
    for side, at, widths in (("A", 1, reads), ("B", 0, writes)):
        wanted, has = widths.get(module), sides[side][at]
        if wanted is not None and has != wanted:
            return f"lora_{side} is {list(sides[side])}, the base's width there is {wanted:,}"
    return None


def _modules(tensors: Mapping[str, Tensor]) -> Iterator[str]:
    for name in tensors:
        if found := _FACTOR.fullmatch(name):
            yield found["module"]
