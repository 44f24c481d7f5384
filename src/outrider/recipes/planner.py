"""What serves an endpoint on this machine, and with what. Pure: the same inputs give the same plan."""

from __future__ import annotations

import math
from typing import Any

from outrider.engines.drafters import refuses_grammar
from outrider.engines.warmup import default_payloads
from outrider.recipes.appraisal import Appraisal
from outrider.recipes.bound import break_even
from outrider.recipes.candidate import obstacles
from outrider.recipes.capacity import prefill_rate
from outrider.recipes.choice import Choice, choose, memory_plan
from outrider.recipes.comparison import rested_on
from outrider.recipes.fit import MIB, describe
from outrider.recipes.given import Given
from outrider.recipes.ignoring import ignored
from outrider.recipes.library import Catalog
from outrider.recipes.plan import Decision, Flag, Plan, ServerPlan, WeightsPlan
from outrider.recipes.reading import NONE, Files
from outrider.recipes.schema import EngineEnvironment, Recipe, Speculation
from outrider.recipes.weights import weights_of
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory

_LATER = "compared with the catalog model before the engine starts"
_NEVER = "not compared with the catalog model, whose facts are of another format"


def plan(
    endpoint: Endpoint, inventory: Inventory, catalog: Catalog, facts: ModelFacts | None = None, files: Files = NONE
) -> Plan:
    """Plan an endpoint.

    Args:
        facts: read from the endpoint's own weights, where it names a file; with them a model without a recipe can
            be planned too, marked ``estimated``.
        files: what else was read of the files that the endpoint names.

    Raises:
        UnknownModel: no recipe and no facts. RecipeNotFound: no recipe of the id that the endpoint names.
        InvalidInput: nothing fits; says what is missing and the smallest change that fits.
        ObjectiveUnreachable: what fits does not meet the objective; says the best that can be had.
        InvalidSpec: flags that the engine does not have or that cannot have such values.
        WeightsUnfit, AdapterUnfit, DrafterUnfit: the endpoint brings what no recipe can serve.
    """
    return _laid_out(choose(endpoint, inventory, catalog, facts, files), endpoint, inventory, facts)


def _laid_out(choice: Choice, endpoint: Endpoint, inventory: Inventory, facts: ModelFacts | None) -> Plan:
    """What was chosen, with everything that follows from it."""
    found, recipe, device = choice.chosen, choice.chosen.pair.recipe, choice.chosen.pair.device
    flags, flag_decisions = _flags(endpoint, found)
    values = {flag.name: flag.value for flag in flags}
    weights, weights_decision = _weights(endpoint, recipe, facts, choice.given)
    speculation, drafting = _speculation(found, choice.given)
    return Plan(
        endpoint=endpoint.label,
        model=recipe.model.id,
        task=endpoint.task,
        recipe=recipe.id,
        recipe_version=recipe.version,
        provenance=found.pair.provenance(),
        stale_after=recipe.stale_after,
        engine=recipe.engine.name,
        engine_version=recipe.engine.version,
        flags=flags,
        environment=_environment(recipe),
        weights=weights,
        server=_server(endpoint, found),
        warm_up=recipe.warm_up or _warm_up(recipe, values, found.facts),
        speculation=speculation,
        adapters=choice.given.adapters,
        prefill_rate=endpoint.routing.prefill_rate or prefill_rate(recipe),
        ttft_penalty=endpoint.routing.ttft_penalty,
        hardware=str(device),
        obstacles=obstacles(device, inventory),
        memory=memory_plan(found),
        prediction=found.prediction,
        considered=choice.considered,
        expected=found.target.point if found.target and found.curve.source == "curve" else None,
        decisions=_decisions(choice, endpoint, inventory, (weights_decision, *flag_decisions), drafting),
        ignored=ignored(endpoint, inventory, found),
    )


def _decisions(
    choice: Choice, endpoint: Endpoint, inventory: Inventory, settings: tuple[Decision, ...], drafting: Decision
) -> tuple[Decision, ...]:
    """All of them, in the order in which they are shown."""
    found = choice.chosen
    return (
        choice.decision,
        _hardware(endpoint, found, inventory),
        _engine(endpoint, found.pair.recipe, inventory),
        *settings,
        *_arrivals(endpoint, found),
        *_sizes(endpoint, found),
        *_unpredicted(found),
        *_routing(endpoint),
        drafting,
        *_adapters(choice.given),
    )


def _environment(recipe: Recipe) -> EngineEnvironment:
    """The recipe's; an engine that never runs in Outrider's own Python gets its package where the recipe names none."""
    engine, own = recipe.engine, recipe.engine.environment
    if own.packages or engine.name == "llamacpp":
        return own
    return own.model_copy(update={"packages": (f"{engine.name}=={engine.version}",)})


def _warm_up(recipe: Recipe, values: dict[str, Any], facts: ModelFacts) -> tuple[dict[str, Any], ...]:
    images = bool(facts.takes_images) and not values.get("language_model_only") and recipe.engine.name != "llamacpp"
    found = default_payloads(
        tools=bool(values.get("tool_call_parser")),
        images=images,
        embeddings=bool(values.get("embeddings")),
        shared_prefix=values.get("shared_prefix"),
    )
    return tuple(dict(payload) for payload in found)


def _flags(endpoint: Endpoint, found: Appraisal) -> tuple[tuple[Flag, ...], list[Decision]]:
    """The recipe's flags, what the fit changed of them, and the endpoint's own."""
    recipe = found.pair.recipe
    flags = {name: Flag(name=name, value=flag.value, reason=flag.reason) for name, flag in recipe.flags.items()}
    decisions = []
    for name, reason in found.changed.items():
        was = (f"{flags[name].value!r}: the recipe's",) if name in flags else ()
        flags[name] = Flag(name=name, value=found.values[name], reason=reason)
        decisions.append(Decision(choice=f"flag {name}", value=str(flags[name].value), reason=reason, rejected=was))
    if endpoint.task == "embed":
        flags["embeddings"] = Flag(name="embeddings", value=True, reason="the task is embed; chat goes on working")
    for name, value in endpoint.flags.items():
        before = f"{flags[name].value!r}" if name in flags else "the engine's default"
        flags[name] = Flag(name=name, value=value, reason=f"set by you; the recipe says {before}")
        rejected = (f"{before}: the recipe's",) if name in recipe.flags else ()
        decisions.append(Decision(choice=f"flag {name}", value=str(value), reason="set by you", rejected=rejected))
    return tuple(flags.values()), decisions


def _engine(endpoint: Endpoint, recipe: Recipe, inventory: Inventory) -> Decision:
    name, wanted = recipe.engine.name, recipe.engine.version
    reason = "set by you" if endpoint.engine else "the recipe's"
    installed = inventory.engines.get(name)
    if _environment(recipe).packages:
        reason += "; it gets an environment of its own"
    elif installed is None:
        reason += "; not installed in Outrider's Python: pip install 'outrider[cpu]'"
    elif wanted not in ("any", installed):
        reason += f"; the recipe was made with {wanted}, {installed} is installed"
    else:
        reason += f"; {installed} is installed"
    return Decision(choice="engine", value=f"{name} {wanted}", reason=reason)


def _weights(endpoint: Endpoint, recipe: Recipe, facts: ModelFacts | None, laid: Given) -> tuple[WeightsPlan, Decision]:
    if endpoint.weights:
        base, size = (rested_on(recipe), None) if facts is None else (None, facts.file_bytes)
        given = WeightsPlan(sources=(endpoint.weights,), sha256=None, bytes=size, base=base)
        rejected = tuple(f"{s.reference}: the recipe's" for s in recipe.weights if s.reference != endpoint.weights)
        reason = "given by you; not pinned by a digest"
        if facts is None:
            reason += f"; not on this machine yet (outrider model pull): {_LATER if base else _NEVER}"
        elif laid.weights == ():
            reason += "; compared with the catalog model, no difference was found"
        notes = laid.weights or ()
        return given, Decision(choice="weights", value=endpoint.weights, reason=reason, rejected=rejected, notes=notes)
    chosen = weights_of(recipe)
    same, sha256 = chosen.sources, chosen.sha256
    others = tuple(f"{s.reference}: not known to be the same file" for s in recipe.weights if s.sha256 != sha256)
    pinned = f"pinned by SHA-256 {sha256[:12]}…" if sha256 else "not pinned by a digest"
    then = f"; then {', '.join(same[1:])}, the same file" if len(same) > 1 else ""
    reason = f"the recipe's first source, {pinned}{then}"
    return chosen, Decision(choice="weights", value=same[0], reason=reason, rejected=others)


def _hardware(endpoint: Endpoint, found: Appraisal, inventory: Inventory) -> Decision:
    device = found.pair.device
    reason = "asked for by you" if endpoint.resources.gpu else "of this machine"
    if missing := obstacles(device, inventory):
        reason += f"; nothing can start here: {'; '.join(missing)}"
    if device.usd_per_hour is not None:
        reason += f"; ${device.usd_per_hour:.2f} an hour at the default price"
    return Decision(choice="hardware", value=str(device), reason=reason)


def _memory(endpoint: Endpoint, found: Appraisal) -> Decision:
    """What one replica needs, in words."""
    fit, load, gpu = found.fit, found.load, found.pair.device.kind == "gpu"
    value = "unknown" if fit.needed is None else f"{fit.needed / MIB:,.0f} MiB"
    if fit.parts:
        held = f"{load.requests} × {load.tokens:,} tokens or one of {load.context:,}"
        if not gpu:
            held = f"{found.values.get('slots') or 1} × {load.context:,} tokens"
        reason = f"{describe(fit)}; the cache is for {held}"
    elif fit.needed is not None:
        whose = "of each GPU" if gpu else "of the host"
        reason = f"{whose}, as the recipe states it: it cannot be computed, {fit.unknown} is not known"
    else:
        reason = f"cannot be computed: {fit.unknown} is not known, so nobody checks that it fits"
    if gpu:
        reason = f"{reason}; {fit.available / MIB:,.0f} MiB of each GPU are to be had"
    elif (replicas := max(1, endpoint.scaling.min_replicas)) > 1 and fit.parts:
        reason += f"; {replicas} replicas of it"
    if endpoint.resources.memory is not None and not gpu:
        value = f"{endpoint.resources.memory / MIB:,.0f} MiB"
        reason = f"set by you; {'needs ' if fit.parts else ''}{reason}"
    return Decision(choice="memory", value=value, reason=reason)


def _sizes(endpoint: Endpoint, found: Appraisal) -> list[Decision]:
    """What a replica needs, and how many requests it should and may hold."""
    whose = "set by you" if endpoint.scaling.max_concurrency else "the engine's slots; further requests wait outside it"
    decisions = [_memory(endpoint, found), Decision(choice="max_concurrency", value=str(found.most), reason=whose)]
    if endpoint.scaling.target_concurrency is not None:
        value = f"{endpoint.scaling.target_concurrency:g}"
        decisions.append(Decision(choice="target_concurrency", value=value, reason="set by you"))
    elif found.target is not None:
        value = str(found.target.concurrency)
        decisions.append(Decision(choice="target_concurrency", value=value, reason=found.target.reason))
    return decisions


def _arrivals(endpoint: Endpoint, found: Appraisal) -> list[Decision]:
    """Requests in flight, where the spec says how many arrive a second."""
    flow, rate, count = found.flow, endpoint.workload.rate, max(1, endpoint.scaling.min_replicas)
    if flow is None or rate is None:
        return []
    each = f"{rate:g} a second" if count == 1 else f"{rate:g} a second among {count} replicas"
    reason = f"{each}, for as long as each takes here ({found.curve.source})"
    if not flow.kept_up:
        needed = math.ceil(rate / flow.most)
        reason = (
            f"{each} are more than {flow.most:.3g}, which is all that a replica finishes: it takes {needed} at least"
        )
    return [Decision(choice="requests in flight", value=f"{flow.requests} a replica", reason=reason)]


def _unpredicted(found: Appraisal) -> list[Decision]:
    """Why nothing is said of its speed; nothing where something is."""
    if found.curve.points:
        return []
    return [Decision(choice="speed", value="unknown", reason=found.curve.basis)]


def _routing(endpoint: Endpoint) -> list[Decision]:
    """What was set of it; the rest is the recipe's and the gateway's."""
    given = endpoint.routing.model_dump(exclude_none=True)
    return [
        Decision(choice=f"routing.{name}", value=f"{value:g}", reason="set by you") for name, value in given.items()
    ]


def _server(endpoint: Endpoint, found: Appraisal) -> ServerPlan:
    scaling, resources, device = endpoint.scaling, endpoint.resources, found.pair.device
    aim = scaling.target_concurrency
    if aim is None and found.target is not None:
        aim = float(found.target.concurrency)
    return ServerPlan(
        gpu=f"{device.name}:{device.count}" if device.kind == "gpu" else None,
        cpu=resources.cpu,
        memory=resources.memory or (found.fit.needed if device.kind == "cpu" else None),
        port=resources.port,
        target_concurrency=aim,
        max_concurrency=found.most,
        min_replicas=max(1, scaling.min_replicas),
        startup_timeout=resources.startup_timeout,
        exit_grace_period=resources.exit_grace_period,
        unauthenticated=endpoint.unauthenticated,
    )


def _speculation(found: Appraisal, given: Given) -> tuple[Speculation, Decision]:
    chosen, offered = found.speculation, found.pair.offered or found.pair.recipe.speculation
    rejected = () if chosen.method == offered.method else (f"{offered.method}: the recipe's",)
    value = chosen.method if chosen.drafter in (None, offered.drafter) else f"{chosen.method} {chosen.drafter}"
    notes = (*given.drafter, *_ungrammatical(chosen, found.pair.recipe), *_slower(found))
    reason, counted = chosen.reason, found.curve.acceptance
    if counted is not None:
        reason += f"; the plan counts on τ {counted.length:.3g}, {counted.source}"
    return chosen, Decision(choice="drafter", value=value, reason=reason, rejected=rejected, notes=notes)


def _ungrammatical(chosen: Speculation, recipe: Recipe) -> tuple[str, ...]:
    """What users lose with a drafter that its engine runs beside no grammar."""
    engine = recipe.engine
    if not refuses_grammar(chosen.method, engine.name, engine.version):
        return ()
    return (f"{engine.name} {engine.version} refuses JSON schemas and forced tool calls while it drafts with it",)


def _slower(found: Appraisal) -> tuple[str, ...]:
    """That drafting does not pay at the load that is planned for: auto goes by one request where no load is said."""
    counted, load = found.curve.acceptance, found.prediction.concurrency if found.prediction else 1
    needed = break_even(found.pair.recipe, found.speculation.method, load, found.speculation.tokens)
    if counted is None or not counted.known or needed is None or counted.length >= needed:
        return ()
    return (
        f"with {load} in flight it pays from τ {needed:.3g} only: workload.concurrency says how many are expected,"
        " workload.structured_output that answers have a fixed form",
    )


def _adapters(given: Given) -> list[Decision]:
    return [Decision(choice=f"adapter {one.name}", value=one.source, reason=one.reason) for one in given.adapters]
