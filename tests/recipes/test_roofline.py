"""The roofline's parts against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.recipes import roofline
from outrider.recipes.device import Device, host, of_kind
from outrider.recipes.drafting import NONE, draft
from outrider.recipes.gpus import gpu_facts
from outrider.recipes.schema import Speculation
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory


def facts(**given: Any) -> ModelFacts:
    return ModelFacts(format="safetensors", architecture="x", source="a test", **given)


QWEN = facts(
    parameters=8_190_735_360, layers=36, hidden_size=4096, ffn_size=12288, heads=32, kv_heads=8, head_dim=128,
    vocab_size=151_936, tied_embeddings=False,
)  # fmt: skip
EXPERTS = facts(
    parameters=100_000, active_parameters=20_000, experts=10, experts_per_token=1, layers=2, kv_heads=1, head_dim=8
)


def gpu(name: str, count: int = 1) -> Device:
    kind = gpu_facts(name)
    assert kind is not None
    return of_kind(kind, kind.name, count, memory=kind.memory_bytes)


def model(known: ModelFacts, engine: str = "sglang", precision: str = "bf16") -> roofline.Model:
    return roofline.Model(known, 2 * (known.parameters or 0), precision, engine, {})


def test_a_step_reads_all_weights_but_the_embedding_that_is_looked_up() -> None:
    assert roofline.touched(QWEN, 1) == pytest.approx(1 - 151_936 * 4096 / 8_190_735_360)
    assert roofline.touched(QWEN.model_copy(update={"tied_embeddings": True}), 1) == 1


def test_a_token_reads_its_experts_and_many_tokens_read_nearly_all() -> None:
    assert roofline.touched(EXPERTS, 1) == pytest.approx(0.2)
    two = roofline.touched(EXPERTS, 2)
    assert 0.2 < two < 0.4
    assert roofline.touched(EXPERTS, 1000) == pytest.approx(1, abs=1e-6)


def test_decoding_alone_is_bound_by_bandwidth_and_overhead() -> None:
    step = roofline.step_seconds(model(QWEN), gpu("H200"), requests=1, tokens=1, context=640)
    read = (2 * (8_190_735_360 - 151_936 * 4096) + 640 * 36 * 2 * 8 * 128 * 2) / (4.8e12 * 0.87)
    assert step == pytest.approx(read + 36 * 42e-6)


def test_reading_a_prompt_is_bound_by_the_rate() -> None:
    one = roofline.step_seconds(model(QWEN), gpu("H100"), requests=1, tokens=8192, context=8192)
    other = roofline.step_seconds(model(QWEN), gpu("H200"), requests=1, tokens=8192, context=8192)
    assert one == pytest.approx(other)  # the same rate, other bandwidths
    assert one > 2 * 8.19e9 * 8192 / (989e12 * 0.4)


def test_fp8_weights_use_units_for_it_where_there_are_some() -> None:
    fast = roofline.step_seconds(model(QWEN, precision="fp8"), gpu("H100"), requests=1, tokens=8192, context=1)
    slow = roofline.step_seconds(model(QWEN, precision="fp8"), gpu("A100"), requests=1, tokens=8192, context=1)
    assert slow / fast > 1979 / 312 * 0.9


def test_more_requests_slow_each_and_serve_more() -> None:
    found = [
        roofline.speed(
            model(QWEN), gpu("H200"), NONE, requests=load, input_tokens=1024, shared_tokens=0, output_tokens=256,
            acceptance=1.0,
        )
        for load in (1, 4, 16, 64)
    ]  # fmt: skip
    assert [s.itl for s in found] == sorted(s.itl for s in found)
    assert [s.ttft for s in found] == sorted(s.ttft for s in found)
    assert [s.output_tps for s in found] == sorted(s.output_tps for s in found)
    assert found[0].output_tps == pytest.approx(256 / (found[0].ttft + 256 * found[0].itl))


def test_a_shared_prefix_shortens_the_wait() -> None:
    def ttft(shared: int) -> float:
        return roofline.speed(
            model(QWEN), gpu("L40S"), NONE, requests=1, input_tokens=4096, shared_tokens=shared, output_tokens=8,
            acceptance=1.0,
        ).ttft  # fmt: skip

    assert ttft(3072) < ttft(0) / 2


def test_drafting_costs_a_step_and_gives_tokens() -> None:
    drafter = draft(Speculation(method="dflash", tokens=15, reason="a test"), QWEN)
    assert drafter.parameters == pytest.approx(1.05e9, rel=0.03)  # the drafter that was measured
    plain = roofline.decode_seconds(model(QWEN), gpu("H200"), NONE, requests=1, context=640)
    step = roofline.decode_seconds(model(QWEN), gpu("H200"), drafter, requests=1, context=640)
    assert step / plain == pytest.approx(1.25, abs=0.1)  # measured: 6.41 ms against 5.11


def test_the_best_block_falls_with_the_load() -> None:
    def ratio(tokens: int, requests: int) -> float:
        drafter = draft(Speculation(method="dflash", tokens=tokens, reason="a test"), QWEN)
        one = roofline.decode_seconds(model(QWEN), gpu("H200"), drafter, requests=requests, context=272)
        return one / roofline.decode_seconds(model(QWEN), gpu("H200"), NONE, requests=requests, context=272)

    assert ratio(15, 1) == pytest.approx(ratio(7, 1), rel=0.02)
    assert ratio(15, 32) > 1.3 * ratio(7, 32)  # measured: 2.77 against 1.74


def test_a_cpu_has_no_launches_and_scales_with_threads_up_to_the_machine() -> None:
    machine = Inventory(cores=4, memory_bytes=2**34, disk_free_bytes=0)
    one, four, eight = (host(machine, threads) for threads in (1, 4, 8))
    assert one.bandwidth is not None and four.bandwidth is not None
    assert one.bandwidth < four.bandwidth == eight.bandwidth
    measured = machine.model_copy(update={"memory_bandwidth": 5e9})
    assert host(measured, 1).bandwidth == 5e9


@pytest.mark.parametrize(
    ("known", "weights", "missing"),
    [
        (QWEN, None, "weights"),
        (QWEN.model_copy(update={"parameters": None}), 1, "parameters"),
        (EXPERTS.model_copy(update={"active_parameters": None}), 1, "a token uses"),
        (QWEN.model_copy(update={"layers": None}), 1, "layers"),
    ],
)
def test_what_is_missing_is_said(known: ModelFacts, weights: int | None, missing: str) -> None:
    assert missing in roofline.unknown(known, weights, gpu("H200"))


def test_a_gpu_that_nobody_knows_has_no_speed() -> None:
    device = of_kind(None, "Tesla T4", 1, memory=2**34)
    assert "Tesla T4" in roofline.unknown(QWEN, 1, device)
    assert roofline.unknown(QWEN, 1, gpu("H200")) == ""
