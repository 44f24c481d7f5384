"""Facts of the file that a spec itself names, for planning a model without a recipe."""

from __future__ import annotations

from outrider.models.facts import read_facts
from outrider.models.sources import PathSource, parse
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts


def facts_of_spec(endpoint: Endpoint) -> ModelFacts | None:
    """Facts of ``weights: path:…`` or ``model: path:…``, else None. Raises InvalidReference, WeightsUnreadable."""
    reference = endpoint.weights or endpoint.model
    if endpoint.weights is None and not reference.startswith("path:"):
        return None
    source = parse(reference)
    return read_facts(source.path) if isinstance(source, PathSource) else None
