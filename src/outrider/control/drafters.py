"""Which drafter drafts for which target: the registry held against the weights that endpoints run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from outrider.app.server import Progress
from outrider.control.endpoints import EndpointService
from outrider.drafting.registry import Registry, Use
from outrider.errors import InvalidInput, OutriderError, WeightsUnavailable
from outrider.models.drafter_check import Target
from outrider.models.facts import read_facts
from outrider.models.tokenizer import read_tokenizer
from outrider.models.weights import Weights
from outrider.recipes.library import load_catalog
from outrider.recipes.plan import WeightsPlan
from outrider.recipes.weights import weights_named
from outrider.spec.endpoint import Endpoint
from outrider.store.drafters import DrafterRecord


@dataclass(frozen=True, slots=True)
class Used:
    """What ``use`` did.

    Attributes:
        revision: of the endpoint that was named, as it is now; None: none was.
        planned: the method that its plan has now, and why.
    """

    use: Use
    endpoint: str | None = None
    revision: int | None = None
    planned: str | None = None
    reason: str | None = None


class DrafterService:
    """Bind drafters. Blocking; called from the API's threads."""

    def __init__(self, registry: Registry, endpoints: EndpointService) -> None:
        self.registry = registry
        self._endpoints = endpoints

    @contextmanager
    def taken(self, reference: str, name: str | None) -> Iterator[DrafterRecord]:
        """A drafter taken in; it is forgotten again if what is then done with it is refused."""
        before = {record.name for record in self.registry.all()}
        record = self.registry.add(reference, name)
        try:
            yield record
        except OutriderError:
            if record.name not in before:
                self.registry.remove(record.name)
            raise

    def use_for_endpoint(self, name: str, endpoint: str) -> Used:
        """Bind a drafter to the weights that an endpoint runs, and give the endpoint a revision with it.

        Raises:
            DrafterNotFound, EndpointNotFound. DrafterUnfit: it cannot draft for these weights.
            InvalidInput: the endpoint has no spec, or its spec names another drafter.
            WeightsUnavailable: its weights are not on this machine, so nobody can look at them.
        """
        self.registry.get(name)
        written = self._endpoints.view(endpoint)["spec"]
        if written is None:
            raise InvalidInput(
                f"{endpoint} has no spec", why="it runs a serve.py of its own", remedy="Name the drafter in that file."
            )
        spec = Endpoint.model_validate(written)
        if spec.drafter.source != "auto":
            raise InvalidInput(
                f"{endpoint} does not choose its drafter",
                why=f"its spec says drafter: {spec.drafter.source}",
                remedy=f"Let it: outrider endpoint apply {endpoint} --set drafter=auto",
            )
        bound = self._bind(name, self._endpoints.plan(spec).weights)
        self._endpoints.put(endpoint, spec, create=False)
        made = self._endpoints.plan(spec).speculation
        revision = self._endpoints.view(endpoint)["revision"]
        return Used(bound, endpoint, revision and revision["number"], made.method, made.reason)

    def use_for_target(self, name: str, target: str) -> Used:
        """Bind a drafter to weights: a reference, a recipe's id or a model's. Endpoints take it with their next plan.

        Raises:
            DrafterNotFound, InvalidReference, UnknownModel. DrafterUnfit: it cannot draft for these weights.
            UsageError: the model's recipes use different weights. WeightsUnavailable: they are not on this machine.
        """
        self.registry.get(name)
        return Used(self._bind(name, weights_named(target, load_catalog())))

    def _bind(self, name: str, weights: WeightsPlan) -> Use:
        path = Weights(*weights.sources, sha256=weights.sha256).cached(_quiet)
        digest = weights.sha256 or self.registry.digest(weights.sources[0])
        if path is None or digest is None:
            raise WeightsUnavailable(
                f"The weights {weights.sources[0]} are not on this machine",
                why="a drafter is held against its target's files and bound to their digest",
                remedy=f"Fetch them first: outrider model pull {weights.sources[0]}",
            )
        return self.registry.use(name, digest, Target(read_facts(path), read_tokenizer(path)))


def _quiet(progress: Progress) -> None:
    """Nothing is fetched, so nobody waits."""
