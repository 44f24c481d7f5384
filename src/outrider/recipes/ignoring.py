"""What a spec says and nothing here can honour, each with why. Pure."""

from __future__ import annotations

from outrider.recipes.appraisal import Appraisal
from outrider.recipes.plan import Ignored
from outrider.spec.endpoint import Endpoint
from outrider.spec.inventory import Inventory


def ignored(endpoint: Endpoint, inventory: Inventory, found: Appraisal) -> tuple[Ignored, ...]:
    """One a field of the spec that this placement or version cannot honour."""
    scaling, resources, objective = endpoint.scaling, endpoint.resources, endpoint.objective
    one = f"placement {inventory.placement}: one machine, no regions"
    fixed = "replica counts are fixed in this version: min_replicas run"
    unenforced = "no cgroup can be written here, so the quota is not enforced"
    beyond = f"the quota is more than the {inventory.cores} cores there are, and never binds"
    unchecked = found.target is None
    cpu = resources.cpu or 0
    rows: list[tuple[str, object, bool, str]] = [
        ("regions.routing", endpoint.regions.routing, True, one),
        ("regions.compute", ", ".join(endpoint.regions.compute), True, one),
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
        ("workload.rate", endpoint.workload.rate, found.flow is None, _no_flow(endpoint, found)),
        ("objective.ttft", objective.ttft, unchecked, found.curve.basis),
        ("objective.itl", objective.itl, unchecked, found.curve.basis),
        ("objective.e2e", objective.e2e, unchecked, found.curve.basis),
        (
            "objective.usd_per_hour",
            objective.usd_per_hour,
            found.pair.device.usd_per_hour is None,
            f"no price of {found.pair.device} is known",
        ),
    ]
    context, wanted = found.values.get("context"), endpoint.workload.input_tokens + endpoint.workload.output_tokens
    if context is not None and wanted > int(context):
        reason = f"a request may hold {context:,} tokens, prompt and answer: longer ones are refused by the engine"
        rows.append(("workload.input_tokens", endpoint.workload.input_tokens, True, reason))
    return tuple(
        Ignored(field=field, value=str(value), reason=reason) for field, value, holds, reason in rows if value and holds
    )


def _no_flow(endpoint: Endpoint, found: Appraisal) -> str:
    return found.curve.basis if endpoint.workload.concurrency is None else "workload.concurrency is planned for"
