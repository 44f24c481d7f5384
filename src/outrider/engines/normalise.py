"""Engines' metrics pages, turned into one shape: pure functions from Prometheus text to :class:`EngineMetrics`.

Sources: llama.cpp ``tools/server/README.md``; vLLM ``vllm/v1/metrics/loggers.py``,
``vllm/v1/spec_decode/metrics.py`` (0.24.0, 0.32.0); SGLang
``sglang/srt/observability/metrics_collector.py`` (0.5.15.post1, 0.5.23).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from outrider.engines.page import Page, Sample
from outrider.metrics.distribution import Distribution


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """What one engine says of itself at one moment. Totals count from its start; unknown is None, never zero.

    Attributes:
        running: requests being decoded or prefilled.
        waiting: requests that the engine holds in its own queue.
        prompt_tokens: prompt tokens computed, without those taken from a cache.
        cached_tokens: prompt tokens that were not computed because a cache held them.
        generated_tokens: tokens sampled; llama.cpp and SGLang count a request's when it ends.
        work: what rises while requests run, whatever ends: steps of the model (llama.cpp), or tokens that went through
            it (SGLang). Only its movement means something. vLLM needs none, since its other totals rise meanwhile.
        prompt_seconds: time spent on prompts.
        generation_seconds: time spent on generating.
        kv_usage: share of the KV cache in use, 0 to 1.
        drafts: verification steps of speculative decoding.
        drafted_tokens: tokens that drafters proposed.
        accepted_tokens: proposed tokens that the target accepted, the bonus token *not* included.
        accepted_by_position: of those, how many at each position of the draft.
        ttft: time to the first token, a request.
        itl: time a token after the first, a token or (vLLM) a request's mean.
        queue: time in the engine's own queue, a request.
        preemptions: requests that lost their place to others and were computed anew.
        asleep: whether the engine gave its memory back until it is woken.
    """

    running: int | None = None
    waiting: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None
    work: int | None = None
    prompt_seconds: float | None = None
    generation_seconds: float | None = None
    kv_usage: float | None = None
    drafts: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_by_position: tuple[int, ...] = ()
    ttft: Distribution | None = None
    itl: Distribution | None = None
    queue: Distribution | None = None
    preemptions: int | None = None
    asleep: bool | None = None

    @property
    def acceptance_length(self) -> float | None:
        """τ since the engine's start: tokens committed a verification step, the bonus token included. None: no step."""
        if not self.drafts or self.accepted_tokens is None:
            return None
        return 1.0 + self.accepted_tokens / self.drafts

    @property
    def prefix_hit_rate(self) -> float | None:
        """Share of all prompt tokens since the start that a cache held; None: unknown, or no prompt yet."""
        if self.prompt_tokens is None or self.cached_tokens is None:
            return None
        every = self.prompt_tokens + self.cached_tokens
        return self.cached_tokens / every if every else None

    def since(self, earlier: EngineMetrics) -> float | None:
        """τ of the steps between two pages of one engine; None: no step, or it restarted meanwhile."""
        if None in (self.drafts, earlier.drafts, self.accepted_tokens, earlier.accepted_tokens):
            return None
        steps = (self.drafts or 0) - (earlier.drafts or 0)
        accepted = (self.accepted_tokens or 0) - (earlier.accepted_tokens or 0)
        return 1.0 + accepted / steps if steps > 0 and accepted >= 0 else None


def llamacpp(text: str) -> EngineMetrics:
    """llama.cpp's page (``llamacpp:…``). It has no KV usage, no histogram and no label for the model."""
    page = Page(text, "llamacpp:")
    return EngineMetrics(
        running=page.count("requests_processing"),
        waiting=page.count("requests_deferred"),
        prompt_tokens=page.count("prompt_tokens_total"),
        cached_tokens=page.count("prompt_tokens_cached_total"),
        generated_tokens=page.count("tokens_predicted_total"),
        work=page.count("n_decode_total"),
        prompt_seconds=page.total("prompt_seconds_total"),
        generation_seconds=page.total("tokens_predicted_seconds_total"),
        drafts=page.count("spec_decode_num_drafts_total"),
        drafted_tokens=page.count("spec_decode_num_draft_tokens_total"),
        accepted_tokens=page.count("spec_decode_num_accepted_tokens_total"),
        accepted_by_position=page.by_position("spec_decode_num_accepted_tokens_per_pos_total"),
    )


def vllm(text: str) -> EngineMetrics:
    """vLLM's page (``vllm:…``).

    ITL comes from ``request_time_per_output_token_seconds``: ``inter_token_latency_seconds`` is a *step's* time, which
    grows with speculation while a token's falls. ``prompt_tokens_total`` counts cached tokens too, so they are
    subtracted.
    """
    page = Page(text, "vllm:")
    prompt, cached = page.count("prompt_tokens_total"), page.count("prompt_tokens_cached_total")
    if cached is None:
        cached = page.count("prefix_cache_hits_total")
    awake = page.mean("engine_sleep_state", sleep_state="awake")
    return EngineMetrics(
        running=page.count("num_requests_running"),
        waiting=page.count("num_requests_waiting"),
        prompt_tokens=None if prompt is None else max(0, prompt - (cached or 0)),
        cached_tokens=cached,
        generated_tokens=page.count("generation_tokens_total"),
        prompt_seconds=page.total("request_prefill_time_seconds_sum"),
        generation_seconds=page.total("request_decode_time_seconds_sum"),
        kv_usage=page.mean("kv_cache_usage_perc"),
        drafts=page.count("spec_decode_num_drafts_total"),
        drafted_tokens=page.count("spec_decode_num_draft_tokens_total"),
        accepted_tokens=page.count("spec_decode_num_accepted_tokens_total"),
        accepted_by_position=page.by_position("spec_decode_num_accepted_tokens_per_pos_total"),
        ttft=page.distribution("time_to_first_token_seconds"),
        itl=page.distribution("request_time_per_output_token_seconds"),
        queue=page.distribution("request_queue_time_seconds"),
        preemptions=page.count("num_preemptions_total"),
        asleep=None if awake is None else awake < 1,
    )


def sglang(text: str) -> EngineMetrics:
    """SGLang's page (``sglang:…``); totals are of finished requests.

    It counts verification steps but not accepted tokens. A request's first token comes from its prefill, every other
    from a step, which commits what was accepted and one bonus token: accepted = generated − requests − steps. Its ITL
    is a token's already. How many tokens were drafted, and at which position they were accepted, it does not say.
    """
    page = Page(text, "sglang:", _counted_once)
    prompt, cached = page.count("prompt_tokens_total"), page.count("cached_tokens_total")
    generated, steps = page.count("generation_tokens_total"), page.count("spec_verify_calls_total")
    requests = page.count("num_requests_total")
    accepted = None
    if steps and generated is not None and requests is not None:
        accepted = max(0, generated - requests - steps)
    if prompt is not None and cached is None:
        cached = 0  # the counter of cached tokens appears with the first of them
    return EngineMetrics(
        running=page.count("num_running_reqs"),
        waiting=page.count("num_queue_reqs"),
        prompt_tokens=None if prompt is None else max(0, prompt - (cached or 0)),
        cached_tokens=cached,
        generated_tokens=generated,
        work=page.count("realtime_tokens_total"),
        kv_usage=page.mean("token_usage"),
        drafts=steps,
        accepted_tokens=accepted,
        ttft=page.distribution("time_to_first_token_seconds"),
        itl=page.distribution("inter_token_latency_seconds"),
        queue=page.distribution("queue_time_seconds"),
        preemptions=page.count("num_retracted_requests_total"),
    )


def _counted_once(samples: Sequence[Sample]) -> list[Sample]:
    """Of SGLang's samples of one name those that count no request twice.

    A total (``priority=""``) stands beside its parts by priority. Ranks of one data-parallel group tell of the same
    requests: every pipeline rank does, and with ``--enable-metrics-for-all-schedulers`` every tensor-parallel one.
    """

    def rank(sample: Sample) -> tuple[int, ...]:
        words = (sample.labels.get(label, "") for label in ("pp_rank", "tp_rank"))
        return tuple(int(word) if word.isdecimal() else 0 for word in words)

    totals = [sample for sample in samples if not sample.labels.get("priority")]
    first: dict[str, tuple[int, ...]] = {}
    for sample in totals:
        group = sample.labels.get("dp_rank", "")
        first[group] = min(rank(sample), first.get(group, rank(sample)))
    return [sample for sample in totals if rank(sample) == first[sample.labels.get("dp_rank", "")]]


NORMALISERS: Mapping[str, Callable[[str], EngineMetrics]] = {"llamacpp": llamacpp, "vllm": vllm, "sglang": sglang}
"""By engine name."""
