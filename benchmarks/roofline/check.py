"""Each row of ``rows.yaml`` against the roofline: the error where τ is known, the τ that it implies where it is not."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import yaml

from outrider.models.precision import bits
from outrider.recipes import roofline
from outrider.recipes.device import Device, host, of_kind
from outrider.recipes.drafting import draft
from outrider.recipes.gpus import gpu_facts
from outrider.recipes.library import Catalog, load_catalog
from outrider.recipes.schema import Speculation
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory

ROWS = Path(__file__).with_name("rows.yaml")


def rows() -> list[dict[str, Any]]:
    """The file's rows."""
    content: list[dict[str, Any]] = yaml.safe_load(ROWS.read_text(encoding="utf-8"))["rows"]
    return content


def checked(row: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
    """One row with what the roofline says: ``predicted_ms`` and ``error``, or ``implied_tau``, or ``unknown``."""
    facts, device = _facts(row["model"], catalog), _device(row)
    result = {name: row[name] for name in ("name", "itl_ms", "source")}
    result |= {"own": row.get("own", False), "fitted": row.get("fitted", False), "note": row.get("note", "")}
    width = bits(row["precision"])
    weights = None if facts.parameters is None or width is None else int(facts.parameters * width / 8)
    if missing := roofline.unknown(facts, weights, device):
        return result | {"unknown": missing}
    assert weights is not None
    speculation = Speculation.model_validate({"method": "off", "reason": "as the row"} | row.get("speculation", {}))
    drafter = draft(speculation, facts)
    model = roofline.Model(facts, weights, row["precision"], row["engine"], {})
    context = row["input_tokens"] + row["output_tokens"] // 2
    step = roofline.decode_seconds(model, device, drafter, requests=1, context=context) * 1000
    result |= {"step_ms": round(step, 4), "drafted": drafter.tokens}
    tau = row.get("acceptance_length", 1.0 if speculation.method == "off" else None)
    if tau is None:
        implied = step / row["itl_ms"]
        return result | {"implied_tau": round(implied, 3), "possible": 1 <= implied <= drafter.tokens + 1}
    predicted = step / tau
    error = (predicted - row["itl_ms"]) / row["itl_ms"]
    return result | {"tau": tau, "predicted_ms": round(predicted, 4), "error": round(error, 4)}


def report() -> dict[str, Any]:
    """Every row, and the medians."""
    catalog = load_catalog([])
    found = [checked(row, catalog) for row in rows()]
    known = [row for row in found if "error" in row]
    fresh = [row for row in known if not row["fitted"]]
    return {
        "rows": found,
        "with_tau": len(known),
        "not_fitted": len(fresh),
        "ratios": {
            "itl_c1_median_abs_error": round(statistics.median(abs(row["error"]) for row in known), 4),
            "itl_c1_median_abs_error_not_fitted": round(statistics.median(abs(row["error"]) for row in fresh), 4),
        },
    }


def _facts(model: str, catalog: Catalog) -> ModelFacts:
    recipes = catalog.for_model(model)
    return next((r.model.facts for r in recipes if r.model.facts.format == "safetensors"), recipes[0].model.facts)


def _device(row: dict[str, Any]) -> Device:
    if row["gpu"] == "CPU":
        return host(Inventory(cores=row["count"], memory_bytes=0, disk_free_bytes=0))
    kind = gpu_facts(row["gpu"])
    assert kind is not None, f"{row['gpu']} is not in the table"
    return of_kind(kind, kind.name, row["count"], memory=kind.memory_bytes)
