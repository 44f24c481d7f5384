"""Settings: what a trial changes about an endpoint's plan, and which of them are worth a trial. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from outrider.engines.speculation import USUAL_TOKENS, WITH_DRAFTER
from outrider.errors import InvalidInput, NoDrafter, OutriderError
from outrider.recipes.flags import FlagValue
from outrider.recipes.plan import Flag, Plan
from outrider.recipes.schema import DrafterOption, Recipe, Speculation

Stage = Literal["threads", "speculation", "batch_size", "slots"]
STAGES: tuple[Stage, ...] = ("threads", "speculation", "batch_size", "slots")
"""What is varied, in this order: each stage keeps what the one before found."""

_LONGEST_LOOKUP = 8
"""Tokens of the longest n-gram draft tried. Lookup is not trained, so nothing else bounds it; where text repeats itself
for longer, a draft of 8 has most of the gain."""
_BATCHES = {"llamacpp": (128, 512, 2048), "vllm": (2048, 8192), "sglang": (2048, 8192)}
"""Tokens that one step may take together: the engines' own defaults, and what is usual beside them."""
_METHODS = ("dflash", "eagle3", "mtp", "ngram", "draft")
_OWN = "speculative."
"""Beginning of llama.cpp's own names for what ``speculation`` sets."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration that can be tried.

    Attributes:
        flags: values of engine flags that differ from the plan's, by name, sorted; ``None`` leaves a flag out.
        speculation: the drafter, and how much it drafts a step.
        by_flags: the endpoint's own flags draft (llama.cpp's ``speculative.…``), whatever ``speculation`` says.
    """

    flags: tuple[tuple[str, FlagValue | None], ...]
    speculation: Speculation
    by_flags: bool = False

    @property
    def plain(self) -> bool:
        """Nothing drafts."""
        return self.speculation.method == "off" and not self.by_flags

    @property
    def drafting(self) -> str:
        """The speculation in two words: ``off``, ``ngram 4``, ``dflash block 8``."""
        chosen = self.speculation
        if self.by_flags:
            return "by own flags"
        if chosen.method == "off" or chosen.tokens is None:
            return chosen.method
        if chosen.method == "ngram":
            return f"ngram {chosen.tokens}"
        return f"{chosen.method} block {chosen.tokens + 1}"

    @property
    def label(self) -> str:
        """All of it in some words."""
        changed = [f"{name}={value}" for name, value in self.flags if value is not None]
        return ", ".join([*changed, f"speculation {self.drafting}"])

    def with_flag(self, name: str, value: FlagValue | None) -> Setting:
        """The same with one flag more."""
        return replace(self, flags=tuple(sorted({**dict(self.flags), name: value}.items())))


def present(plan: Plan) -> Setting:
    """What the endpoint runs now."""
    return Setting((), plan.speculation, by_flags=any(flag.name.startswith(_OWN) for flag in plan.flags))


def value_of(plan: Plan, setting: Setting, name: str) -> FlagValue | None:
    """A flag's value under a setting; None: the engine's own default."""
    changed = dict(setting.flags)
    if name in changed:
        return changed[name]
    return next((flag.value for flag in plan.flags if flag.name == name), None)


def changed_plan(plan: Plan, setting: Setting, reason: str = "tried by the tuner") -> Plan:
    """The plan with a setting in place of its own; ``reason`` stands over each flag that differs."""
    values = dict(setting.flags)
    flags: list[Flag] = []
    for flag in plan.flags:
        value = values.pop(flag.name, flag.value)
        if value is not None:
            flags.append(flag if value == flag.value else Flag(name=flag.name, value=value, reason=reason))
    flags += [Flag(name=name, value=value, reason=reason) for name, value in values.items() if value is not None]
    server = plan.server
    slots = next((flag.value for flag in flags if flag.name == "slots"), None)
    if "slots" in dict(setting.flags) and isinstance(slots, int):
        server = server.model_copy(update={"max_concurrency": slots})
    return plan.model_copy(update={"flags": tuple(flags), "speculation": setting.speculation, "server": server})


def candidates(
    stage: Stage,
    base: Setting,
    *,
    plan: Plan,
    recipe: Recipe,
    cores: int,
    concurrency: int,
    methods: Sequence[str] | None = None,
    trained: Mapping[str, int] | None = None,
) -> list[Setting]:
    """What a stage tries, ``base`` first; ``base`` alone where there is nothing to vary.

    Args:
        base: the best setting so far.
        cores: that this process may use.
        concurrency: requests in flight of the workload.
        methods: of speculation; None: all that the engine and the model have.
        trained: drafter → tokens that it was trained to draft, as its files say. Of the others: the most that the plan
            or the recipe names.

    Raises:
        NoDrafter: a method of ``methods`` needs a drafter that no recipe of the model names.
        InvalidInput: a method that there is not, or that the engine does not have.
    """
    if stage == "speculation":
        found = _drafting(base, plan, recipe, methods, trained or {})
    elif stage == "threads":
        found = [base.with_flag("threads", count) for count in _threads(recipe, cores)]
    elif stage == "batch_size":
        found = [base.with_flag("batch_size", count) for count in _BATCHES[plan.engine]]
    else:
        most = recipe.limits.max_concurrency
        counts = {1 << power for power in range(most.bit_length()) if 1 << power <= most}
        near = sorted(counts, key=lambda count: (abs(count.bit_length() - concurrency.bit_length()), count))[:3]
        found = [base.with_flag("slots", count) for count in sorted(near)]
    apart = {_effect(plan, base): base}
    for one in found:
        apart.setdefault(_effect(plan, one), one)
    return list(apart.values())


def _effect(plan: Plan, setting: Setting) -> tuple[object, ...]:
    """What runs under a setting: two with the same effect need one trial."""
    flags = {flag.name: flag.value for flag in changed_plan(plan, setting).flags}
    chosen = setting.speculation
    tokens = USUAL_TOKENS[chosen.method] if chosen.tokens is None else chosen.tokens
    return tuple(sorted(flags.items())), chosen.method, tokens, chosen.drafter, chosen.quantization


def _threads(recipe: Recipe, cores: int) -> list[int]:
    """Powers of two and all cores, on a CPU; nothing where a GPU computes."""
    if recipe.hardware.kind != "cpu":
        return []
    return sorted({*(1 << power for power in range(cores.bit_length()) if 1 << power <= cores), cores})


def _drafting(
    base: Setting, plan: Plan, recipe: Recipe, methods: Sequence[str] | None, trained: Mapping[str, int]
) -> list[Setting]:
    wanted = _METHODS if methods is None else [name for name in methods if name != "off"]
    found = [] if methods is not None and "off" not in methods else [_without(base, plan)]
    for method in wanted:
        option = _option(method, plan, recipe)
        if option is not None and _loads(plan.engine, option):
            most = trained.get(option.drafter or "") or _longest(option, recipe)
            found += [_drafted(base, plan, option, tokens) for tokens in blocks(method, most)]
        elif methods is not None:
            raise _refusal(method, plan, recipe, option)
    return found


def _loads(engine: str, option: DrafterOption) -> bool:
    """llama.cpp reads a drafter from a GGUF file alone; what the others cannot read, the plan has refused before."""
    return engine != "llamacpp" or option.drafter is None or option.drafter.endswith(".gguf")


def _refusal(method: str, plan: Plan, recipe: Recipe, option: DrafterOption | None) -> OutriderError:
    """Why a method that was asked for cannot be tried."""
    if method not in _METHODS:
        why = f"there are {', '.join(('off', *_METHODS))}"
        return InvalidInput(f"{plan.engine} has no speculation {method!r}", why=why, remedy="Name one of these.")
    if option is None:
        why = f"{recipe.id} names none for {recipe.model.id}"
        return NoDrafter(f"There is no drafter to try {method} with", why=why)
    return NoDrafter(
        f"There is no drafter to try {method} with",
        why=f"llama.cpp reads a GGUF file, and {option.drafter} is none",
        remedy="Convert it with outrider drafter export --format gguf, and name the file: --drafter path:FILE.gguf",
    )


def blocks(method: str, trained: int | None) -> list[int]:
    """Tokens to draft a step: blocks of 2, 4, 8 … up to the trained one, which is always among them.

    A block holds the bonus token, too, so that a block of 8 drafts 7. n-gram drafts count as blocks themselves.

    Args:
        trained: tokens that the drafter was trained to draft. None: not known, so up to a block of 8.
    """
    if method == "ngram":
        return [1 << power for power in range(1, _LONGEST_LOOKUP.bit_length()) if 1 << power <= _LONGEST_LOOKUP]
    most = trained or 7
    return sorted({*((1 << power) - 1 for power in range(1, 12) if (1 << power) - 1 <= most), most})


def _option(method: str, plan: Plan, recipe: Recipe) -> DrafterOption | None:
    """A drafter of a method: what the plan runs with, else what the recipe lists."""
    chosen = plan.speculation
    if chosen.method == method and method != "ngram":
        return DrafterOption.model_validate(
            {"method": method, "drafter": chosen.drafter, "quantization": chosen.quantization,
             "tokens": chosen.tokens, "source": "the endpoint's plan"}
        )  # fmt: skip
    listed = next((one for one in recipe.drafters if one.method == method), None)
    if method == "ngram":
        return listed or DrafterOption(method="ngram", source="needs no weights")
    if listed is None or (method in WITH_DRAFTER and listed.drafter is None):
        return None
    return listed


def _longest(option: DrafterOption, recipe: Recipe) -> int | None:
    """The most tokens that the plan or the recipe drafts with it: either may name fewer than it was trained for."""
    alike = [one for one in recipe.drafters if (one.method, one.drafter) == (option.method, option.drafter)]
    return max((one.tokens for one in (option, *alike) if one.tokens is not None), default=None)


def _drafted(base: Setting, plan: Plan, option: DrafterOption, tokens: int) -> Setting:
    weights: dict[str, Any] = {}
    if option.method in WITH_DRAFTER:
        weights = {"drafter": option.drafter, "quantization": option.quantization or "none"}
    chosen = Speculation.model_validate(
        {"method": option.method, "tokens": tokens, "reason": "tried by the tuner", **weights}
    )
    return replace(_plain(base, plan), speculation=chosen)


def _without(base: Setting, plan: Plan) -> Setting:
    off = Speculation(method="off", reason="tried by the tuner")
    return replace(_plain(base, plan), speculation=off if base.speculation.method != "off" else base.speculation)


def _plain(base: Setting, plan: Plan) -> Setting:
    """Without the engine's own flags for drafting, which would win over what is tried."""
    for flag in plan.flags:
        if flag.name.startswith(_OWN):
            base = base.with_flag(flag.name, None)
    return replace(base, by_flags=False)
