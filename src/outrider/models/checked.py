"""Weights that are held against a model before they are used: ``OwnWeights``, ``Adapter`` and ``DraftWeights``.

A ``serve.py`` names them and a runner prepares them in its stage ``preparing``, so that what does not fit is refused
before an engine starts, also where the files came from the hub and nobody could look at them earlier.
"""

from __future__ import annotations

import logging
from pathlib import Path

from outrider.app.server import Progress, Report
from outrider.errors import DrafterUnfit, WeightsUnfit
from outrider.models import adapter, comparison, drafter, drafter_check
from outrider.models.drafter_check import Finding, Target
from outrider.models.facts import read_facts
from outrider.models.tokenizer import read_tokenizer
from outrider.models.weights import Weights
from outrider.spec.facts import ModelFacts

log = logging.getLogger(__name__)


class OwnWeights(Weights):
    """A model's weights that stand in for those of a catalog model.

    Args:
        sources: references, tried in order.
        base: what the plan rests upon: facts of the catalog model, of which a None is not compared.
        sha256: digest. None: not pinned.
    """

    def __init__(self, *sources: str, base: ModelFacts, sha256: str | None = None) -> None:
        super().__init__(*sources, sha256=sha256)
        self.base = base
        self._compared: Path | None = None

    def prepare(self, report: Report) -> Path:
        """Present and compared with the base; their file or directory. Differences that forbid nothing are told.

        Raises:
            WeightsUnfit: of another format or architecture, or of sizes that the plan's memory does not hold for.
            WeightsUnreadable: they are no model's. Further what Weights.prepare raises.
        """
        path = super().prepare(report)
        if path == self._compared:
            return path  # adapters and drafters ask for it again
        report(Progress(f"comparing the weights {path.name} with the catalog model"))
        own = read_facts(path)
        self._refuse_family(own)
        self._refuse_sizes(own)
        for line in _named(self.base, own):
            _tell(f"weights: {line}", report)
        self._compared = path
        return path

    def _refuse_family(self, own: ModelFacts) -> None:
        text = comparison.architecture(self.base, own)
        if own.format != self.base.format:
            text = f"format: {own.format}, the catalog model's is {self.base.format}"
        if text is not None:
            raise WeightsUnfit(
                f"{self.sources[0]} cannot be served as the catalog model",
                why=f"{text}: engine and flags of the {self.base.source} are for that",
                details={"differences": [text]},
            )

    def _refuse_sizes(self, own: ModelFacts) -> None:
        lines = comparison.sizes(self.base, own)
        stored = comparison.precision(self.base.quantisation, own)
        if stored is not None and comparison.takes_more(self.base.quantisation, own):
            lines.append(stored)
        if lines:
            raise WeightsUnfit(
                f"{self.sources[0]} is of other sizes than it was planned with",
                why=f"{'; '.join(lines)}: memory was computed for the {self.base.source}",
                remedy=f"Plan with the files at hand: outrider model pull '{self.sources[0]}', then give the same"
                " outrider endpoint create (or apply) again; memory is computed from them.",
                details={"differences": [*lines, *_named(self.base, own)]},
            )


class Adapter(Weights):
    """A LoRA adapter: a directory with ``adapter_config.json`` and safetensors, as PEFT saves it.

    Args:
        sources: references, tried in order.
        base: the weights that it changes.
        sha256: digest of the directory (see :mod:`outrider.models.digests`). None: not pinned.
    """

    def __init__(self, *sources: str, base: Weights, sha256: str | None = None) -> None:
        super().__init__(*sources, sha256=sha256)
        self.base = base
        self.rank = 0

    def prepare(self, report: Report) -> Path:
        """Present and checked against the base; its directory.

        Raises:
            AdapterUnfit: rank, modules, layers or shapes are not the base's. Further what Weights.prepare raises.
        """
        path = super().prepare(report)
        report(Progress(f"checking the adapter {path.name}"))
        facts = adapter.read_adapter(path)
        adapter.refuse(facts, path.name, read_facts(self.base.prepare(_quiet)))
        self.rank = facts.rank
        return path


class DraftWeights(Weights):
    """A drafter's weights.

    Args:
        sources: references, tried in order.
        target: the weights that it drafts for.
        method: as the engine is told; the files must be of that kind.
        tokens: drafted a step. None: not known here.
        sha256: digest. None: not pinned.
    """

    def __init__(
        self, *sources: str, target: Weights, method: str, tokens: int | None = None, sha256: str | None = None
    ) -> None:
        super().__init__(*sources, sha256=sha256)
        self.target = target
        self.method = method
        self.tokens = tokens

    def prepare(self, report: Report) -> Path:
        """Present and checked against the target; its file or directory.

        Raises:
            DrafterUnfit: it cannot draft for this target. Further what Weights.prepare raises.
        """
        path = super().prepare(report)
        report(Progress(f"checking the drafter {path.name}"))
        against = self.target.prepare(_quiet)
        target = Target(read_facts(against), read_tokenizer(against))
        for finding in refuse(drafter.read_drafter(path), self.sources[0], target, self.method, self.tokens):
            _tell(f"drafter: {finding.what}", report)
        return path


def refuse(
    facts: drafter.DrafterFacts, name: str, target: Target, method: str | None, tokens: int | None
) -> list[Finding]:
    """The warnings; raises DrafterUnfit where there is a refusal, with every finding.

    Args:
        method: that the engine is told; None: whatever the files are.
    """
    findings = drafter_check.check(facts, target, tokens=tokens)
    if method is not None and facts.method != method:
        what = f"its files are of the kind {facts.method}, it is served as {method}"
        findings.insert(0, Finding("method", "refuse", what, f"Serve it as {facts.method}.", facts.source))
    refused = drafter_check.refusals(findings)
    if refused:
        raise DrafterUnfit(
            f"The drafter {name} does not fit {target.facts.source}",
            why="; ".join(finding.what for finding in refused),
            remedy=refused[0].remedy,
            details={"findings": [_row(finding) for finding in findings]},
        )
    return findings


def _named(base: ModelFacts, own: ModelFacts) -> list[str]:
    """Differences that memory does not follow from."""
    stored = comparison.precision(base.quantisation, own)
    lines = [] if stored is None or comparison.takes_more(base.quantisation, own) else [stored]
    lines += comparison.vocabulary(base, own)
    lines += comparison.context(base, own)
    return lines + comparison.chat_template(base, own)


def _row(finding: Finding) -> dict[str, str]:
    return {
        "field": finding.field,
        "severity": finding.severity,
        "what": finding.what,
        "remedy": finding.remedy,
        "source": finding.source,
    }


def _tell(line: str, report: Report) -> None:
    """As progress, which the next step replaces, and in the replica's log, where it stays."""
    report(Progress(line))
    log.warning("%s", line)


def _quiet(progress: Progress) -> None:
    """The base was reported when it was prepared itself."""
