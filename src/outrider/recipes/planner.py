"""Which recipe serves an endpoint on this machine, and with what. Pure: the same inputs give the same plan."""

from __future__ import annotations

from datetime import date
from typing import Any

from outrider.errors import InvalidInput, Problem, UnknownModel
from outrider.errors import InvalidSpec as _InvalidSpec
from outrider.recipes.library import Catalog
from outrider.recipes.memory import kv_bytes, need
from outrider.recipes.plan import Decision, EnvironmentPlan, Flag, Ignored, Plan, WeightsPlan
from outrider.recipes.schema import (
    Hardware,
    Limits,
    Provenance,
    ReasonedFlag,
    Recipe,
    RecipeEngine,
    RecipeModel,
    Speculation,
    WeightsSource,
)
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory


def plan(endpoint: Endpoint, inventory: Inventory, catalog: Catalog, facts: ModelFacts | None = None) -> Plan:
    """Plan an endpoint.

    Args:
        facts: read from the endpoint's own weights, where it names a file; with them a model without a recipe can be
            planned too, marked ``estimated``.

    Raises:
        UnknownModel: no recipe and no facts. InvalidInput: nothing fits; says what is missing. InvalidSpec: a flag that
            the engine does not have.
    """
    recipe, chosen = _choose(endpoint, inventory, catalog, facts)
    flags, flag_decisions = _flags(endpoint, recipe)
    values = {flag.name: flag.value for flag in flags}
    memory = _fit(recipe, values, inventory)
    weights, weights_decision = _weights(endpoint, recipe)
    server, server_decisions = _server(endpoint, recipe, values, memory)
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
        environment=EnvironmentPlan(
            python=recipe.engine.python, packages=recipe.engine.packages, env=recipe.engine.env
        ),
        weights=weights,
        server=server,
        speculation=speculation,
        decisions=(chosen, weights_decision, *flag_decisions, *server_decisions, drafting),
        ignored=_ignored(endpoint, inventory),
    )


def _choose(
    endpoint: Endpoint, inventory: Inventory, catalog: Catalog, facts: ModelFacts | None
) -> tuple[Recipe, Decision]:
    candidates = [catalog.get(endpoint.recipe)] if endpoint.recipe else catalog.for_model(endpoint.model)
    rejected: list[str] = []
    for recipe in candidates:
        reason = _unfit(recipe, endpoint, inventory)
        if reason is None:
            why = "you named it" if endpoint.recipe else f"it is made for {recipe.model.id} and fits this machine"
            status = f"{why}; provenance: {recipe.provenance.status}"
            return recipe, Decision(choice="recipe", value=recipe.id, reason=status, rejected=tuple(rejected))
        rejected.append(f"{recipe.id}: {reason}")
    if candidates:
        raise InvalidInput(
            f"No recipe for {endpoint.model} fits",
            why="; ".join(rejected),
            remedy="Change what the reasons name, or add a recipe of your own.",
        )
    if facts is not None and facts.format == "gguf":
        recipe = _synthesised(endpoint, facts)
        reason = "no recipe names the model; this one is estimated from the file's header"
        return recipe, Decision(choice="recipe", value=recipe.id, reason=reason)
    raise _unknown(endpoint, catalog)


def _unknown(endpoint: Endpoint, catalog: Catalog) -> UnknownModel:
    near = catalog.nearest_model(endpoint.model)
    tried = [*(f"{directory}: no recipe" for directory in catalog.directories), "facts of the model: no file was given"]
    hint = f"Did you mean {near}? " if near else ""
    return UnknownModel(
        f"Nothing is known of the model {endpoint.model!r}",
        why="tried " + "; ".join(tried),
        remedy=f"{hint}Name a GGUF file with --weights path:FILE, or put a recipe in ~/.config/outrider/recipes"
        " (docs/guides/recipes.md).",
        details={"tried": tried, "nearest": near},
    )


def _unfit(recipe: Recipe, endpoint: Endpoint, inventory: Inventory) -> str | None:
    if endpoint.engine and endpoint.engine != recipe.engine.name:
        return f"its engine is {recipe.engine.name}, you asked for {endpoint.engine}"
    if endpoint.task not in recipe.tasks:
        return f"it does not serve the task {endpoint.task}"
    if recipe.hardware.kind == "gpu" and not inventory.gpus:
        return f"it needs {recipe.hardware.count} × {recipe.hardware.gpu}; this machine has no GPU"
    return None


def _synthesised(endpoint: Endpoint, facts: ModelFacts) -> Recipe:
    context = min(facts.context_length or 4096, 4096)
    reference = endpoint.weights or endpoint.model
    return Recipe(
        schema_version=1,
        id=f"{endpoint.label}/estimated",
        version=1,
        model=RecipeModel(id=endpoint.model, facts=facts),
        precision=facts.quantisation or "unknown",
        weights=(WeightsSource(reference=reference, bytes=facts.file_bytes),),
        hardware=Hardware(kind="cpu", min_memory_bytes=facts.file_bytes or 0),
        engine=RecipeEngine(name="llamacpp", version="any"),
        tasks=("generate", "embed"),
        flags={
            "threads": ReasonedFlag(value=1, reason="llama.cpp's threads spin while they wait; safe on a busy machine"),
            "slots": ReasonedFlag(value=2, reason="two requests at once until a measurement says more"),
            "context": ReasonedFlag(value=context, reason="tokens a request may hold; the model's own up to 4,096"),
        },
        speculation=Speculation(method="off", reason="no drafter is known for this model"),
        limits=Limits(max_context=facts.context_length or context, max_concurrency=2),
        provenance=Provenance(status="estimated", when=date(2026, 11, 30), note="made from the file's header"),
        stale_after=date(2027, 5, 31),
    )


def _flags(endpoint: Endpoint, recipe: Recipe) -> tuple[tuple[Flag, ...], list[Decision]]:
    flags = {name: Flag(name=name, value=flag.value, reason=flag.reason) for name, flag in recipe.flags.items()}
    decisions = []
    if endpoint.task == "embed":
        reason = "the task is embed; chat goes on working"
        flags["embeddings"] = Flag(name="embeddings", value=True, reason=reason)
    for name, value in endpoint.flags.items():
        if name not in flags and name != "embeddings":
            problem = Problem(field=f"flags.{name}", value=value, message=f"flags.{name}: the recipe has no such flag")
            raise _InvalidSpec(
                f"{recipe.engine.name} has no flag {name!r}",
                [problem],
                remedy=f"Known: {', '.join(flags)}, embeddings.",
            )
        before = flags[name].value if name in flags else None
        flags[name] = Flag(name=name, value=value, reason=f"set by you (the recipe says {before})")
        decisions.append(
            Decision(
                choice=f"flag {name}", value=str(value), reason="set by you", rejected=(f"{before}: the recipe's",)
            )
        )
    return tuple(flags.values()), decisions


def _fit(recipe: Recipe, values: dict[str, Any], inventory: Inventory) -> int | None:
    memory = need(recipe, context=int(values.get("context") or 0), slots=int(values.get("slots") or 1))
    if memory is not None and memory > inventory.memory_bytes:
        missing = memory - inventory.memory_bytes
        raise InvalidInput(
            f"{recipe.id} does not fit this machine",
            why=f"it needs {memory / 2**30:.1f} GiB, {missing / 2**30:.1f} GiB more than there are",
            remedy="Take a smaller context (--set context=N), fewer slots (--set slots=N) or a smaller model.",
        )
    return memory


def _weights(endpoint: Endpoint, recipe: Recipe) -> tuple[WeightsPlan, Decision]:
    if endpoint.weights:
        given = WeightsPlan(sources=(endpoint.weights,), sha256=None, bytes=None)
        return given, Decision(choice="weights", value=endpoint.weights, reason="given by you; not pinned by a digest")
    first = recipe.weights[0]
    # One digest stands for one file: a source that holds another file cannot stand in for it.
    same = tuple(source.reference for source in recipe.weights if source.sha256 == first.sha256)
    others = tuple(
        f"{s.reference}: another file, not the one pinned" for s in recipe.weights if s.sha256 != first.sha256
    )
    pinned = f"pinned by SHA-256 {first.sha256[:12]}…" if first.sha256 else "not pinned by a digest"
    chosen = WeightsPlan(sources=same, sha256=first.sha256, bytes=first.bytes)
    reason = f"the recipe's first source, {pinned}"
    return chosen, Decision(choice="weights", value=same[0], reason=reason, rejected=others)


def _server(
    endpoint: Endpoint, recipe: Recipe, values: dict[str, Any], memory: int | None
) -> tuple[dict[str, Any], list[Decision]]:
    scaling, resources = endpoint.scaling, endpoint.resources
    slots = int(values.get("slots") or recipe.limits.max_concurrency)
    most = scaling.max_concurrency or slots
    whose = "set by you" if scaling.max_concurrency else "the engine's slots; further requests wait in the gateway"
    server = {
        "cpu": resources.cpu,
        "memory": resources.memory or memory,
        "port": resources.port,
        "target_concurrency": scaling.target_concurrency,
        "max_concurrency": most,
        "min_replicas": max(1, scaling.min_replicas),
        "startup_timeout": resources.startup_timeout,
        "exit_grace_period": resources.exit_grace_period,
        "unauthenticated": endpoint.unauthenticated,
    }
    decisions = [Decision(choice="max_concurrency", value=str(most), reason=whose)]
    if memory is not None and recipe.model.facts.layers:
        cache = kv_bytes(recipe.model.facts, int(values.get("context") or 0) * slots) or 0
        reason = (
            f"weights and buffers, and {cache / 2**20:.0f} MiB of KV cache for {slots} × {values.get('context')} tokens"
        )
        decisions.append(Decision(choice="memory", value=f"{memory / 2**20:.0f} MiB", reason=reason))
    else:
        decisions.append(Decision(choice="memory", value="unknown", reason="the model's facts do not tell it"))
    return server, decisions


def _speculation(endpoint: Endpoint, recipe: Recipe) -> tuple[Speculation, Decision]:
    wanted = endpoint.drafter.source
    if wanted in ("auto", "off"):
        reason = recipe.speculation.reason if wanted == "auto" else "set by you"
        chosen = recipe.speculation if wanted == "auto" else Speculation(method="off", reason=reason)
        return chosen, Decision(choice="drafter", value=chosen.method, reason=reason)
    raise InvalidInput(
        f"{recipe.id} cannot use the drafter {wanted!r}",
        why=recipe.speculation.reason,
        remedy="Leave drafter out, or say: off",
    )


def _ignored(endpoint: Endpoint, inventory: Inventory) -> tuple[Ignored, ...]:
    where = f"placement {inventory.placement}: one machine"
    found = []
    if endpoint.regions.routing:
        found.append(Ignored(field="regions.routing", value=endpoint.regions.routing, reason=f"{where}, no regions"))
    if endpoint.regions.compute:
        value = ", ".join(endpoint.regions.compute)
        found.append(Ignored(field="regions.compute", value=value, reason=f"{where}, no regions"))
    if endpoint.resources.gpu and not inventory.gpus:
        found.append(Ignored(field="resources.gpu", value=endpoint.resources.gpu, reason="this machine has no GPU"))
    if endpoint.resources.cpu is not None and not inventory.quota_enforced:
        value = f"{endpoint.resources.cpu:g}"
        found.append(
            Ignored(field="resources.cpu", value=value, reason="no cgroup is writable: the quota is not enforced")
        )
    scaling = endpoint.scaling
    if scaling.max_replicas is not None and scaling.max_replicas > max(1, scaling.min_replicas):
        reason = "replica counts are fixed in this version: min_replicas run"
        found.append(Ignored(field="scaling.max_replicas", value=str(scaling.max_replicas), reason=reason))
    if scaling.min_replicas == 0:
        found.append(
            Ignored(field="scaling.min_replicas", value="0", reason="one replica is kept: nothing wakes it yet")
        )
    objective = endpoint.objective
    for name in ("ttft", "itl", "e2e", "usd_per_hour"):
        value = getattr(objective, name)
        if value is not None:
            reason = "the recipe has no capacity curve to check it against"
            found.append(Ignored(field=f"objective.{name}", value=f"{value:g}", reason=reason))
    return tuple(found)
