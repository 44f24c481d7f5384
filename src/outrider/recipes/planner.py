"""What serves an endpoint on this machine, and with what. Pure: the same inputs give the same plan."""

from __future__ import annotations

from typing import Any

from outrider.engines.warmup import default_payloads, generation_payloads
from outrider.errors import InvalidInput, InvalidSpec, Problem
from outrider.recipes import capacity
from outrider.recipes.choice import choose
from outrider.recipes.flags import complaint, shown
from outrider.recipes.library import Catalog
from outrider.recipes.memory import Need, largest_context, need
from outrider.recipes.plan import Decision, Flag, Ignored, Plan, ServerPlan, WeightsPlan
from outrider.recipes.schema import EngineEnvironment, Recipe, Speculation
from outrider.recipes.weights import weights_of
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory

_MIB = 2**20


def plan(endpoint: Endpoint, inventory: Inventory, catalog: Catalog, facts: ModelFacts | None = None) -> Plan:
    """Plan an endpoint.

    Args:
        facts: read from the endpoint's own weights, where it names a file; with them a GGUF model without a recipe can
            be planned too, marked ``estimated``.

    Raises:
        UnknownModel: no recipe and no facts. RecipeNotFound: no recipe of the id that the endpoint names.
        InvalidInput: nothing fits; says what is missing and the smallest change that fits.
        InvalidSpec: flags that the engine does not have or that cannot have such values.
    """
    recipe, chosen = choose(endpoint, inventory, catalog, facts)
    flags, flag_decisions = _flags(endpoint, recipe)
    values = {flag.name: flag.value for flag in flags}
    weights, weights_decision = _weights(endpoint, recipe, facts)
    known = facts if endpoint.weights and facts is not None else recipe.model.facts
    if recipe.engine.name == "llamacpp":
        memory, memory_decision = _memory(endpoint, inventory, known, weights, values)
    else:
        memory, memory_decision = _stated_memory(endpoint, inventory, recipe)
    target, load_decisions = _load(endpoint, recipe, values)
    speculation, drafting = _speculation(endpoint, recipe)
    return Plan(
        endpoint=endpoint.label,
        model=recipe.model.id,
        task=endpoint.task,
        recipe=recipe.id,
        recipe_version=recipe.version,
        provenance=recipe.provenance,
        engine=recipe.engine.name,
        engine_version=recipe.engine.version,
        flags=flags,
        environment=_environment(recipe),
        weights=weights,
        server=_server(endpoint, recipe, values, memory, target),
        warm_up=recipe.warm_up or _warm_up(recipe, values),
        speculation=speculation,
        expected=target.point if target else None,
        decisions=(
            chosen,
            _engine(endpoint, recipe, inventory),
            weights_decision,
            *flag_decisions,
            memory_decision,
            *load_decisions,
            drafting,
        ),
        ignored=_ignored(endpoint, inventory, values, target),
    )


def _environment(recipe: Recipe) -> EngineEnvironment:
    """The recipe's; an engine that never runs in Outrider's own Python gets its package where the recipe names none."""
    engine, own = recipe.engine, recipe.engine.environment
    if own.packages or engine.name == "llamacpp":
        return own
    return own.model_copy(update={"packages": (f"{engine.name}=={engine.version}",)})


def _warm_up(recipe: Recipe, values: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    if recipe.engine.name == "llamacpp":
        found = default_payloads(embeddings=bool(values.get("embeddings")))
    else:
        tools, prefix = bool(values.get("tool_call_parser")), values.get("shared_prefix")
        found = generation_payloads(tools=tools, shared_prefix=prefix)
    return tuple(dict(payload) for payload in found)


def _flags(endpoint: Endpoint, recipe: Recipe) -> tuple[tuple[Flag, ...], list[Decision]]:
    """The recipe's flags under the endpoint's own, all of them checked."""
    flags = {name: Flag(name=name, value=flag.value, reason=flag.reason) for name, flag in recipe.flags.items()}
    decisions = []
    if endpoint.task == "embed":
        flags["embeddings"] = Flag(name="embeddings", value=True, reason="the task is embed; chat goes on working")
    for name, value in endpoint.flags.items():
        before = f"{flags[name].value!r}" if name in flags else "the engine's default"
        flags[name] = Flag(name=name, value=value, reason=f"set by you; the recipe says {before}")
        rejected = (f"{before}: the recipe's",) if name in recipe.flags else ()
        decisions.append(Decision(choice=f"flag {name}", value=str(value), reason="set by you", rejected=rejected))
    if wrong := [problem for flag in flags.values() if (problem := _flag_problem(endpoint, recipe, flag))]:
        known = ", ".join(shown(recipe.engine.name))
        raise InvalidSpec(f"{recipe.engine.name} cannot take these flags", wrong, remedy=f"Its flags: {known}.")
    return tuple(flags.values()), decisions


def _flag_problem(endpoint: Endpoint, recipe: Recipe, flag: Flag) -> Problem | None:
    field = f"flags.{flag.name}"
    found = complaint(recipe.engine.name, flag.name, flag.value)
    most = recipe.limits.max_context
    if found is None and flag.name == "context" and most is not None and int(flag.value) > most:
        found = f"the recipe goes to {most:,} tokens", None
    if found is None:
        return None
    allowed, near = found
    whose = "" if flag.name in endpoint.flags else f" (in the recipe {recipe.id})"
    hint = f" (did you mean {near!r}?)" if near else ""
    message = f"{field} = {flag.value!r}: {allowed}{hint}{whose}"
    return Problem(field=field, value=repr(flag.value), allowed=allowed, nearest=near, message=message)


def _engine(endpoint: Endpoint, recipe: Recipe, inventory: Inventory) -> Decision:
    name, wanted = recipe.engine.name, recipe.engine.version
    reason = "set by you" if endpoint.engine else "the recipe's"
    installed = inventory.engines.get(name)
    if recipe.engine.environment.packages:
        reason += "; it gets an environment of its own"
    elif installed is None:
        reason += "; not installed in Outrider's Python: pip install 'outrider[cpu]'"
    elif wanted not in ("any", installed):
        reason += f"; the recipe was made with {wanted}, {installed} is installed"
    else:
        reason += f"; {installed} is installed"
    return Decision(choice="engine", value=f"{name} {wanted}", reason=reason)


def _weights(endpoint: Endpoint, recipe: Recipe, facts: ModelFacts | None) -> tuple[WeightsPlan, Decision]:
    if endpoint.weights:
        given = WeightsPlan(sources=(endpoint.weights,), sha256=None, bytes=facts.file_bytes if facts else None)
        rejected = tuple(f"{s.reference}: the recipe's" for s in recipe.weights if s.reference != endpoint.weights)
        reason = "given by you; not pinned by a digest"
        return given, Decision(choice="weights", value=endpoint.weights, reason=reason, rejected=rejected)
    chosen = weights_of(recipe)
    same, sha256 = chosen.sources, chosen.sha256
    others = tuple(f"{s.reference}: not known to be the same file" for s in recipe.weights if s.sha256 != sha256)
    pinned = f"pinned by SHA-256 {sha256[:12]}…" if sha256 else "not pinned by a digest"
    then = f"; then {', '.join(same[1:])}, the same file" if len(same) > 1 else ""
    reason = f"the recipe's first source, {pinned}{then}"
    return chosen, Decision(choice="weights", value=same[0], reason=reason, rejected=others)


def _memory(
    endpoint: Endpoint, inventory: Inventory, facts: ModelFacts, weights: WeightsPlan, values: dict[str, Any]
) -> tuple[int | None, Decision]:
    """Bytes one replica needs. Raises InvalidInput where they are not there."""
    slots, cap = int(values.get("slots") or 1), values.get("prompt_cache_mib")
    context = int(values.get("context") or facts.context_length or 0)
    found = need(facts, weights.bytes, context=context, slots=slots, prompt_cache_mib=cap) if context else None
    if found is None:
        missing = "the weights' size" if weights.bytes is None else "layers, KV heads or context"
        reason = f"cannot be computed: {missing} is not known, so nobody checks that it fits"
        if endpoint.resources.memory is not None:
            return endpoint.resources.memory, Decision(
                choice="memory", value=f"{endpoint.resources.memory / _MIB:.0f} MiB", reason=f"set by you; {reason}"
            )
        return None, Decision(choice="memory", value="unknown", reason=reason)
    replicas = max(1, endpoint.scaling.min_replicas)
    _check_fit(found, endpoint, inventory, facts, values, replicas)
    reason = (
        f"weights {found.weights / _MIB:.0f}, KV cache {found.kv_cache / _MIB:.0f} for {slots} × {context:,} tokens,"
        f" prompts seen before {found.prompt_cache / _MIB:.0f}, buffers {found.buffers / _MIB:.0f} MiB"
    )
    if replicas > 1:
        reason += f"; {replicas} replicas of it"
    if endpoint.resources.memory is not None:
        value = f"{endpoint.resources.memory / _MIB:.0f} MiB"
        return endpoint.resources.memory, Decision(choice="memory", value=value, reason=f"set by you; needs {reason}")
    return found.total, Decision(choice="memory", value=f"{found.total / _MIB:.0f} MiB", reason=reason)


def _stated_memory(endpoint: Endpoint, inventory: Inventory, recipe: Recipe) -> tuple[int | None, Decision]:
    """Host memory that the recipe states for an engine whose own need is not computed. Raises InvalidInput."""
    stated = recipe.hardware.min_memory_bytes if recipe.hardware.kind == "cpu" else None
    allowed = endpoint.resources.memory
    if stated is not None and stated > min(inventory.memory_bytes, allowed or inventory.memory_bytes):
        raise InvalidInput(
            f"{endpoint.model} does not fit",
            why=f"{recipe.id} needs {stated / _MIB:,.0f} MiB of memory",
            remedy="Take a recipe for less memory, or more memory.",
            details={"needed_bytes": stated, "available_bytes": inventory.memory_bytes},
        )
    if allowed is not None:
        return allowed, Decision(choice="memory", value=f"{allowed / _MIB:.0f} MiB", reason="set by you")
    value = "unknown" if stated is None else f"{stated / _MIB:.0f} MiB"
    return stated, Decision(choice="memory", value=value, reason="of the host, as the recipe states it")


def _check_fit(
    found: Need, endpoint: Endpoint, inventory: Inventory, facts: ModelFacts, values: dict[str, Any], replicas: int
) -> None:
    have, whose = inventory.memory_bytes // replicas, "this machine has"
    if replicas > 1:
        whose = f"this machine has for each of {replicas} replicas"
    if endpoint.resources.memory is not None and endpoint.resources.memory < have:
        have, whose = endpoint.resources.memory, "resources.memory allows"
    if found.total <= have:
        return
    slots, cap = int(values.get("slots") or 1), values.get("prompt_cache_mib")
    missing = (found.total - have) / _MIB
    raise InvalidInput(
        f"{endpoint.model} does not fit",
        why=f"a replica needs {found.total / _MIB:,.0f} MiB, {missing:,.0f} MiB more than {whose}",
        remedy=_smallest_change(have, facts, found.weights, slots=slots, cap=cap),
        details={"needed_bytes": found.total, "available_bytes": have},
    )


def _smallest_change(have: int, facts: ModelFacts, weights: int, *, slots: int, cap: int | None) -> str:
    """The change that leaves most: less context with these slots, else with one slot and no prompt cache."""
    if context := largest_context(have, facts, weights, slots=slots, prompt_cache_mib=cap):
        return f"It fits with a context of {context:,} tokens: set flags.context to {context}."
    if context := largest_context(have, facts, weights, slots=1, prompt_cache_mib=0):
        return (
            f"It fits with one slot of {context:,} tokens and no prompt cache: set flags.slots to 1, flags.context to"
            f" {context} and flags.prompt_cache_mib to 0."
        )
    return "No context is small enough: take a smaller model or precision, or more memory."


def _load(endpoint: Endpoint, recipe: Recipe, values: dict[str, Any]) -> tuple[capacity.Target | None, list[Decision]]:
    """What a replica should and may hold."""
    most = _max_concurrency(endpoint, recipe, values)
    whose = "set by you" if endpoint.scaling.max_concurrency else "the engine's slots; further requests wait outside it"
    decisions = [Decision(choice="max_concurrency", value=str(most), reason=whose)]
    found = capacity.target(
        recipe,
        endpoint.objective,
        most=most,
        output_tokens=endpoint.workload.output_tokens,
        workload=endpoint.workload.concurrency,
    )
    if endpoint.scaling.target_concurrency is not None:
        value = f"{endpoint.scaling.target_concurrency:g}"
        decisions.append(Decision(choice="target_concurrency", value=value, reason="set by you"))
    elif found is not None:
        value = str(found.concurrency)
        decisions.append(Decision(choice="target_concurrency", value=value, reason=found.reason))
    return found, decisions


def _max_concurrency(endpoint: Endpoint, recipe: Recipe, values: dict[str, Any]) -> int:
    slots = int(values.get("slots") or recipe.limits.max_concurrency)
    return endpoint.scaling.max_concurrency or slots


def _server(
    endpoint: Endpoint, recipe: Recipe, values: dict[str, Any], memory: int | None, found: capacity.Target | None
) -> ServerPlan:
    scaling, resources, hardware = endpoint.scaling, endpoint.resources, recipe.hardware
    aim = scaling.target_concurrency
    if aim is None and found is not None:
        aim = float(found.concurrency)
    return ServerPlan(
        gpu=f"{hardware.gpu}:{hardware.count}" if hardware.kind == "gpu" else None,
        cpu=resources.cpu,
        memory=memory,
        port=resources.port,
        target_concurrency=aim,
        max_concurrency=_max_concurrency(endpoint, recipe, values),
        min_replicas=max(1, scaling.min_replicas),
        startup_timeout=resources.startup_timeout,
        exit_grace_period=resources.exit_grace_period,
        unauthenticated=endpoint.unauthenticated,
    )


def _speculation(endpoint: Endpoint, recipe: Recipe) -> tuple[Speculation, Decision]:
    wanted = endpoint.drafter.source
    if wanted == "auto":
        chosen = recipe.speculation
        return chosen, Decision(choice="drafter", value=chosen.method, reason=chosen.reason)
    if wanted == "off":
        rejected = () if recipe.speculation.method == "off" else (f"{recipe.speculation.method}: the recipe's",)
        chosen = Speculation(method="off", reason="set by you")
        return chosen, Decision(choice="drafter", value="off", reason="set by you", rejected=rejected)
    raise InvalidInput(
        f"{recipe.id} cannot use the drafter {wanted!r}",
        why=recipe.speculation.reason,
        remedy="Leave drafter out, or say: off",
    )


def _ignored(
    endpoint: Endpoint, inventory: Inventory, values: dict[str, Any], found: capacity.Target | None
) -> tuple[Ignored, ...]:
    """What the spec says and nothing here can honour, each with why."""
    scaling, resources, objective = endpoint.scaling, endpoint.resources, endpoint.objective
    one = f"placement {inventory.placement}: one machine, no regions"
    fixed = "replica counts are fixed in this version: min_replicas run"
    unenforced = "no cgroup can be written here, so the quota is not enforced"
    beyond = f"the quota is more than the {inventory.cores} cores there are, and never binds"
    unmet = found is None or not found.met
    # Not refused: the curve was measured on another machine, which may be the slower one.
    why_not = found.reason if found else "the recipe has no capacity curve to check it against"
    cpu = resources.cpu or 0
    rows: list[tuple[str, object, bool, str]] = [
        ("regions.routing", endpoint.regions.routing, True, one),
        ("regions.compute", ", ".join(endpoint.regions.compute), True, one),
        ("resources.gpu", resources.gpu, True, "the engine of this recipe runs on the CPU"),
        ("resources.cpu", resources.cpu, not inventory.quota_enforced, unenforced),
        ("resources.cpu", resources.cpu, inventory.quota_enforced and cpu > inventory.cores, beyond),
        (
            "scaling.max_replicas",
            scaling.max_replicas,
            (scaling.max_replicas or 0) > max(1, scaling.min_replicas),
            fixed,
        ),
        ("scaling.min_replicas", "0", scaling.min_replicas == 0, "one replica is kept: nothing wakes it yet"),
        ("scaling.buffer_replicas", scaling.buffer_replicas or None, True, fixed),
        ("workload.rate", endpoint.workload.rate, True, "nothing is planned from arrival rates yet"),
        ("objective.ttft", objective.ttft, unmet, why_not),
        ("objective.itl", objective.itl, unmet, why_not),
        ("objective.e2e", objective.e2e, unmet, why_not),
        ("objective.usd_per_hour", objective.usd_per_hour, True, "no price of this machine is known"),
    ]
    context, wanted = values.get("context"), endpoint.workload.input_tokens + endpoint.workload.output_tokens
    if context is not None and wanted > int(context):
        reason = f"a request may hold {context:,} tokens, prompt and answer: longer ones are refused by the engine"
        rows.append(("workload.input_tokens", endpoint.workload.input_tokens, True, reason))
    return tuple(
        Ignored(field=field, value=str(value), reason=reason) for field, value, holds, reason in rows if value and holds
    )
