"""Which engine loads which drafter: the data names known engines and kinds, and complaints name who does."""

from __future__ import annotations

import pytest

from outrider.engines.drafters import advice, beside_adapters, complaint, loaders, refuses_grammar
from outrider.engines.flags import flags
from outrider.models.drafter import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_that_is_read_has_an_engine_or_says_so(kind: str) -> None:
    for loader in loaders(kind):
        assert loader.source
        assert complaint(kind, loader.engine, loader.since) is None
    if not loaders(kind):
        assert "no engine here" in (complaint(kind, "vllm", "any") or "")


@pytest.mark.parametrize(
    ("kind", "engine", "version", "said"),
    [
        ("dflash2", "vllm", "0.32.0", "vLLM 0.32.0 was not seen to load dflash2 drafters"),
        ("domino", "vllm", "any", "loaded by SGLang 0.5.23 and later"),
        ("lilicorr", "llamacpp", "any", "llama.cpp was not seen to load lilicorr drafters"),
        ("dspark", "sglang", "any", "no engine here"),
    ],
)
def test_who_cannot_is_told_who_can(kind: str, engine: str, version: str, said: str) -> None:
    assert said in (complaint(kind, engine, version) or "")


def test_dflash_is_as_old_as_sglangs_flag_for_it() -> None:
    (sglang,) = (loader for loader in loaders("dflash") if loader.engine == "sglang")
    assert flags("sglang").by_name["speculative_dflash_block_size"].since == sglang.since


def test_advice_is_for_vllm_and_mixed_layers_alone() -> None:
    assert "VLLM_USE_V2_MODEL_RUNNER" in (advice("vllm", mixed_windows=True) or "")
    assert advice("vllm", mixed_windows=False) is advice("sglang", mixed_windows=True) is None


@pytest.mark.parametrize(
    ("method", "engine", "version", "runs"),
    [
        ("ngram", "sglang", "0.5.15.post1", True),
        ("dflash", "sglang", "0.5.15.post1", False),
        ("dflash", "sglang", "0.5.22", False),
        ("dflash", "sglang", "0.5.23", True),
        ("draft", "sglang", "any", False),
        ("dflash", "sglang", "0.4", False),
        ("off", "sglang", "0.5.15.post1", True),
        ("dflash", "vllm", "0.32.0", False),
        ("ngram", "vllm", "0.32.0", True),
        ("dflash", "llamacpp", "any", True),
    ],
)
def test_what_runs_beside_adapters(method: str, engine: str, version: str, runs: bool) -> None:
    assert (beside_adapters(method, engine, version) is None) is runs


@pytest.mark.parametrize(
    ("method", "engine", "version", "refused"),
    [
        ("dflash", "sglang", "0.5.15.post1", True),
        ("dflash", "sglang", "0.5.23", False),
        ("dflash", "sglang", "any", False),
        ("eagle3", "sglang", "0.5.15.post1", False),
        ("dflash", "vllm", "0.24.0", False),
    ],
)
def test_who_takes_no_grammar_while_it_drafts(method: str, engine: str, version: str, refused: bool) -> None:
    assert refuses_grammar(method, engine, version) is refused
