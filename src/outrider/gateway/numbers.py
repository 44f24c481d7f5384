"""What this process has counted, per endpoint, revision and replica, and the records the controller has not had yet."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping

from outrider.metrics import schema
from outrider.metrics.exposition import Sample, render
from outrider.metrics.histograms import Histogram
from outrider.metrics.record import Outcome, RequestRecord
from outrider.metrics.schema import Metric

_BACKLOG = 10_000
"""Records kept while the controller is away: about 5 MB, minutes of a busy gateway."""

_GONE = "retired"


class Series:
    """Counters and histograms of one replica, or of the requests that never reached one."""

    __slots__ = ("answers", "completion_tokens", "e2e", "itl", "overhead", "prompt_tokens", "ttft")

    def __init__(self) -> None:
        self.answers: Counter[tuple[int, Outcome]] = Counter()
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.ttft = Histogram()
        self.itl = Histogram()
        self.e2e = Histogram()
        self.overhead = Histogram()

    def add(self, record: RequestRecord) -> None:
        """Count one finished request. Durations of refusals and broken answers say nothing of a replica: left out."""
        self.answers[record.status, record.outcome] += 1
        self.prompt_tokens += record.prompt_tokens or 0
        self.completion_tokens += record.completion_tokens or 0
        if record.ttft is not None:
            self.ttft.observe(record.ttft)
        if record.itl is not None:
            self.itl.observe(record.itl)
        if record.outcome is Outcome.OK:
            self.e2e.observe(record.e2e)
            self.overhead.observe(record.overhead)

    def merge(self, other: Series) -> None:
        """Add another's counts to this one."""
        self.answers.update(other.answers)
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        for mine, theirs in zip(self._histograms(), other._histograms(), strict=True):
            mine.merge(theirs)

    def _histograms(self) -> tuple[Histogram, ...]:
        return self.ttft, self.itl, self.e2e, self.overhead


Where = tuple[str, int | None, str]
"""Endpoint, revision, replica; the last two are None and "" for requests that reached none."""


class Numbers:
    """All counters of one gateway process."""

    def __init__(self) -> None:
        self.series: dict[Where, Series] = {}
        self.retries: Counter[str] = Counter()
        self.records: deque[RequestRecord] = deque()
        self.records_lost = 0

    def finish(self, record: RequestRecord) -> None:
        """Count a finished request and keep its record for the controller; the oldest goes when there are too many."""
        where = (record.endpoint, record.revision, record.replica or "")
        series = self.series.get(where)
        if series is None:
            series = self.series[where] = Series()
        series.add(record)
        if len(self.records) >= _BACKLOG:
            self.records.popleft()
            self.records_lost += 1
        self.records.append(record)

    def tokens(self) -> dict[str, tuple[int, int]]:
        """Prompt and completion tokens so far, by replica id."""
        return {
            replica: (one.prompt_tokens, one.completion_tokens)
            for (_, _, replica), one in self.series.items()
            if replica and replica != _GONE
        }

    def take_records(self, most: int) -> list[RequestRecord]:
        """Up to ``most`` of the oldest records, which are then no longer kept."""
        return [self.records.popleft() for _ in range(min(most, len(self.records)))]

    def retire(self, live: Collection[str]) -> None:
        """Fold the series of replicas that are gone into one per revision: sums stay, their number does not grow."""
        for where in [where for where in self.series if where[2] and where[2] != _GONE and where[2] not in live]:
            endpoint, revision, _ = where
            gone = self.series.pop(where)
            self.series.setdefault((endpoint, revision, _GONE), Series()).merge(gone)

    def expose(
        self,
        *,
        in_flight: Mapping[tuple[str, str], int],
        waiting: Mapping[str, int],
        connections: int,
        connected: bool,
        version: int,
    ) -> str:
        """Everything as Prometheus text."""
        flat = [
            ((endpoint, "" if revision is None else str(revision), replica), one)
            for (endpoint, revision, replica), one in self.series.items()
        ]
        families: list[tuple[Metric, Iterable[Sample]]] = [
            (
                schema.REQUESTS,
                [
                    ((*where, str(status), outcome.value), count)
                    for where, one in flat
                    for (status, outcome), count in one.answers.items()
                ],
            ),
            (schema.RETRIES, [((endpoint,), count) for endpoint, count in self.retries.items()]),
            (schema.PROMPT_TOKENS, [(where, one.prompt_tokens) for where, one in flat]),
            (schema.COMPLETION_TOKENS, [(where, one.completion_tokens) for where, one in flat]),
            (schema.TTFT, [(where, one.ttft) for where, one in flat]),
            (schema.ITL, [(where, one.itl) for where, one in flat]),
            (schema.E2E, [(where, one.e2e) for where, one in flat]),
            (schema.OVERHEAD, [(where, one.overhead) for where, one in flat]),
            (schema.IN_FLIGHT, list(in_flight.items())),
            (schema.WAITING, [((endpoint,), count) for endpoint, count in waiting.items()]),
            (schema.CONNECTIONS, [((), connections)]),
            (schema.CONTROLLER_CONNECTED, [((), int(connected))]),
            (schema.TABLE_VERSION, [((), version)]),
            (schema.RECORDS_LOST, [((), self.records_lost)]),
        ]
        return render(families)
