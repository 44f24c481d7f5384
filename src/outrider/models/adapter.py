"""A LoRA adapter: its facts, read from ``adapter_config.json`` and safetensors headers, and whether it fits a base."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outrider.errors import AdapterUnfit
from outrider.models.safetensors import Tensor, read_all, read_object
from outrider.spec.facts import ModelFacts

MOST_RANK = 512
"""The largest rank that an engine here takes (vLLM's ``--max-lora-rank``)."""
_FACTOR = re.compile(r"(?:base_model\.model\.)?(?P<module>.+?)\.lora_(?P<side>[AB])(?:\.default)?\.weight")
_UNSERVED = {
    "use_dora": "it is a DoRA adapter, whose magnitudes no engine here applies",
    "lora_bias": "it has biases (lora_bias), which no engine here applies",
    "alora_invocation_tokens": "it is an aLoRA adapter, which begins at a token; no engine here does that",
    "layer_replication": "it repeats layers (layer_replication), which no engine here does",
    "use_bdlora": "it is block-diagonal (use_bdlora), which no engine here computes",
    "use_qalora": "it is a QALoRA adapter, which no engine here computes",
}
"""Entries of ``adapter_config.json`` that engines refuse (vLLM 0.32.0, ``lora/peft_helper.py``), and what they mean."""
_HARMLESS_INITS = ("gaussian", "eva", "orthogonal", "mica", "lora_ga")
"""``init_lora_weights`` after which a saved adapter is a plain LoRA (same place); others change the base's weights."""
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class AdapterFacts:
    """What an adapter's files say.

    Attributes:
        name: the directory's.
        base: the model it was trained on, as its config names it; None: it does not.
        kind: ``peft_type``, in capitals.
        ranks: of its modules, as its config says.
        targets: modules that it changes, by the last part of their names.
        unserved: what it has beyond a plain LoRA that engines refuse, a line each.
        tensors: by name.
    """

    name: str
    base: str | None
    kind: str
    ranks: tuple[int, ...]
    targets: tuple[str, ...]
    unserved: tuple[str, ...] = ()
    tensors: Mapping[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def rank(self) -> int:
        """The largest of its modules; 0: its config names none."""
        return max(self.ranks, default=0)


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
    pattern = config.get("rank_pattern")
    ranks = [config.get("r"), *(pattern.values() if isinstance(pattern, dict) else ())]
    tensors = read_all(files)
    base = config.get("base_model_name_or_path")
    return AdapterFacts(
        name=path.name,
        base=base if isinstance(base, str) and base else None,
        kind=str(config.get("peft_type", "")).upper(),
        ranks=tuple(rank for rank in ranks if isinstance(rank, int) and not isinstance(rank, bool) and rank > 0),
        targets=tuple(sorted({module.rpartition(".")[2] for module in _modules(tensors)})),
        unserved=tuple(_unserved(config)),
        tensors=tensors,
    )


def check(adapter: AdapterFacts, base: ModelFacts) -> list[str]:
    """Why it cannot be used on this base, a line each; empty: nothing that its files show."""
    found = []
    if adapter.kind != "LORA":
        found.append(f"its peft_type is {adapter.kind or 'not said'}, only LORA is served")
    found += adapter.unserved
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
            remedy=f"Use a plain LoRA that was trained on this model{_trained(adapter)}.",
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
        wrong = _pair(sides) or _rank(sides, adapter.ranks) or _width(short, sides, base)
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


def _rank(sides: Mapping[str, tuple[int, ...]], said: tuple[int, ...]) -> str | None:
    """Engines scale by the config's rank, so that one of another rank would be applied too strongly or too weakly."""
    has = sides["A"][0]
    if not said or has in said:
        return None
    return f"its factors are of rank {has}, adapter_config.json says {' and '.join(map(str, sorted(set(said))))}"


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


def _unserved(config: Mapping[str, Any]) -> Iterator[str]:
    yield from (text for entry, text in _UNSERVED.items() if config.get(entry))
    if saved := config.get("modules_to_save"):
        named = ", ".join(map(str, saved)) if isinstance(saved, list) else str(saved)
        yield f"it replaces whole modules (modules_to_save: {named}), which no engine here does"
    init = config.get("init_lora_weights")
    if isinstance(init, str) and init.lower() not in _HARMLESS_INITS:
        yield f"its init_lora_weights is {init}, for which the base's own weights had to be changed"


def _modules(tensors: Mapping[str, Tensor]) -> Iterator[str]:
    for name in tensors:
        if found := _FACTOR.fullmatch(name):
            yield found["module"]
