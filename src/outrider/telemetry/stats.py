"""What an endpoint or a replica did lately, as numbers to show. Durations in seconds; unknown is None, never zero."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from outrider.engines.normalise import EngineMetrics
from outrider.metrics.distribution import Distribution
from outrider.metrics.histograms import Histogram
from outrider.telemetry.pages import Rise
from outrider.telemetry.window import Tally


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of ``count`` durations, in seconds; None where there were none."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None

    @classmethod
    def of(cls, durations: Histogram | Distribution) -> Quantiles:
        """Read from a histogram."""
        return cls(durations.count, durations.quantile(0.5), durations.quantile(0.95), durations.quantile(0.99))


@dataclass(frozen=True, slots=True)
class EngineStats:
    """What engines say of themselves; None: they keep no such number.

    Attributes:
        running: requests being prefilled or decoded now.
        waiting: requests in the engines' own queues now.
        kv_usage: share of the KV cache in use now, 0 to 1; the mean of several replicas.
        prefix_hit_rate: share of the window's prompt tokens that a cache held, 0 to 1.
        acceptance_length: τ of the window: tokens committed a verification step, the bonus token included.
        acceptance_by_position: share of the window's steps that accepted the token at each position of the draft.
        generated_per_second: tokens sampled a second, as vLLM samples them; llama.cpp and SGLang count a request's when
            it ends, as the gateway does.
        ttft, itl, queue: of requests within the window, not only of streams.
    """

    running: int | None
    waiting: int | None
    kv_usage: float | None
    prefix_hit_rate: float | None
    acceptance_length: float | None
    acceptance_by_position: tuple[float, ...] | None
    generated_per_second: float | None
    ttft: Quantiles | None
    itl: Quantiles | None
    queue: Quantiles | None

    @classmethod
    def of(cls, pages: Sequence[EngineMetrics | None], rises: Iterable[Rise]) -> EngineStats:
        """Of one replica, or of several together: ``pages`` as they are now, ``rises`` over the window."""
        rise = Rise()
        for more in rises:
            rise = rise.plus(more)
        usage = _known(pages, lambda page: page.kv_usage)
        running, waiting = _known(pages, lambda page: page.running), _known(pages, lambda page: page.waiting)
        return cls(
            running=None if running is None else int(sum(running)),
            waiting=None if waiting is None else int(sum(waiting)),
            kv_usage=None if usage is None else sum(usage) / len(usage),
            prefix_hit_rate=rise.prefix_hit_rate,
            acceptance_length=rise.acceptance_length,
            acceptance_by_position=rise.acceptance_by_position,
            generated_per_second=rise.generated_per_second,
            ttft=None if rise.ttft is None else Quantiles.of(rise.ttft),
            itl=None if rise.itl is None else Quantiles.of(rise.itl),
            queue=None if rise.queue is None else Quantiles.of(rise.queue),
        )


@dataclass(frozen=True, slots=True)
class GatewayStats:
    """What the gateway saw of the requests that ended within the window; None: no gateway told.

    Attributes:
        requests: that went to a replica; ``failed`` of them are its fault.
        refused: that the gateway answered itself. They are in no other number.
        in_flight: requests being served now.
        prompt_tokens, output_tokens: as engines counted them; None: there were requests, and none was counted.
        ttft, itl: of streams.
        e2e: request complete to the last byte, of requests that went through whole.
    """

    requests: int
    failed: int
    refused: int
    in_flight: int
    requests_per_second: float
    prompt_tokens: int | None
    output_tokens: int | None
    prompt_tokens_per_second: float | None
    output_tokens_per_second: float | None
    ttft: Quantiles
    itl: Quantiles
    e2e: Quantiles

    @classmethod
    def of(cls, tally: Tally, *, seconds: float, in_flight: int) -> GatewayStats:
        """Of what was added up over ``seconds``."""
        prompt, output = tally.prompt_tokens, tally.completion_tokens
        return cls(
            requests=tally.requests,
            failed=tally.failed,
            refused=tally.refused,
            in_flight=in_flight,
            requests_per_second=tally.requests / seconds,
            prompt_tokens=prompt,
            output_tokens=output,
            prompt_tokens_per_second=None if prompt is None else prompt / seconds,
            output_tokens_per_second=None if output is None else output / seconds,
            ttft=Quantiles.of(tally.ttft),
            itl=Quantiles.of(tally.itl),
            e2e=Quantiles.of(tally.e2e),
        )


def _known(pages: Sequence[EngineMetrics | None], read: Callable[[EngineMetrics], float | None]) -> list[float] | None:
    """A number of every engine; None unless each says it: a sum over some of them would be too small."""
    values = [None if page is None else read(page) for page in pages]
    known = [value for value in values if value is not None]
    return known if known and len(known) == len(values) else None
