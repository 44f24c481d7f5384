"""The same words for every engine, and what each engine makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.app.server import Launch
from outrider.engines.flags import flags
from outrider.engines.llamacpp import LlamaCpp
from outrider.engines.llamacpp_speculation import drafter_file, parameters
from outrider.engines.sglang import SGLang
from outrider.engines.speculation import METHODS, USUAL_TOKENS, WITH_DRAFTER, Speculation
from outrider.engines.vllm import VLLM
from outrider.errors import DrafterUnfit, InvalidInput
from outrider.models.weights import Weights
from tests.engines.installed import Installed


def chosen(method: str, tmp_path: Path, tokens: int | None = None, quantization: str = "none") -> Speculation:
    if method not in WITH_DRAFTER:
        return Speculation(method, tokens=tokens)
    (tmp_path / "drafter").mkdir(exist_ok=True)
    return Speculation(method, tokens=tokens, drafter=Weights(f"path:{tmp_path}/drafter"), quantization=quantization)


def vllm_config(made: Speculation, tmp_path: Path, launch: Launch) -> dict[str, Any] | None:
    engine = VLLM(Weights(f"path:{tmp_path}"), Installed("vllm", "0.32.0"), speculation=made)
    engine.prepare(lambda _: None)
    words = engine.command(launch)
    return json.loads(words[words.index("--speculative-config") + 1]) if "--speculative-config" in words else None


def sglang_flags(made: Speculation, tmp_path: Path, launch: Launch) -> dict[str, str]:
    engine = SGLang(Weights(f"path:{tmp_path}"), Installed("sglang", "0.5.23"), speculation=made)
    engine.prepare(lambda _: None)
    words = engine.command(launch)
    return {
        word.removeprefix("--speculative-"): words[number + 1]
        for number, word in enumerate(words)
        if word.startswith("--speculative-")
    }


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("dflash", {"method": "dflash", "model": "DRAFTER", "quantization": None}),
        ("eagle3", {"method": "eagle3", "model": "DRAFTER", "quantization": None}),
        ("draft", {"method": "draft_model", "model": "DRAFTER", "quantization": None}),
        ("mtp", {"method": "mtp"}),
        ("ngram", {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}),
    ],
)
def test_vllm_is_told(method: str, expected: dict[str, Any], tmp_path: Path, launch: Launch) -> None:
    drafter = {"model": f"{tmp_path}/drafter"} if "model" in expected else {}
    told = vllm_config(chosen(method, tmp_path, 5), tmp_path, launch)
    assert told == {**expected, **drafter, "num_speculative_tokens": 5}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("dflash", {"algorithm": "DFLASH", "dflash-block-size": "6"}),
        ("eagle3", {"algorithm": "EAGLE3", "num-steps": "5", "eagle-topk": "1", "num-draft-tokens": "6"}),
        ("draft", {"algorithm": "STANDALONE", "num-steps": "5", "eagle-topk": "1", "num-draft-tokens": "6"}),
        ("mtp", {"algorithm": "NEXTN", "num-steps": "5", "eagle-topk": "1", "num-draft-tokens": "6"}),
        ("ngram", {"algorithm": "NGRAM", "num-draft-tokens": "6"}),
    ],
)
def test_sglang_is_told(method: str, expected: dict[str, str], tmp_path: Path, launch: Launch) -> None:
    drafter = {"draft-model-path": f"{tmp_path}/drafter", "draft-model-quantization": "unquant"}
    told = sglang_flags(chosen(method, tmp_path, 5), tmp_path, launch)
    assert told == {**expected, **(drafter if method in WITH_DRAFTER else {})}


def test_the_drafters_quantisation_is_passed_on(tmp_path: Path, launch: Launch) -> None:
    made = chosen("eagle3", tmp_path, quantization="fp8")
    told = vllm_config(made, tmp_path, launch)
    assert told is not None and told["quantization"] == "fp8"
    assert sglang_flags(made, tmp_path, launch)["draft-model-quantization"] == "fp8"


def test_off_says_nothing(tmp_path: Path, launch: Launch) -> None:
    assert vllm_config(Speculation("off"), tmp_path, launch) is None
    assert sglang_flags(Speculation("off"), tmp_path, launch) == {}


def test_every_method_has_its_usual_tokens(tmp_path: Path) -> None:
    assert set(USUAL_TOKENS) == set(METHODS)
    for method in METHODS:
        assert chosen(method, tmp_path).tokens == USUAL_TOKENS[method]


def test_it_describes_itself(tmp_path: Path) -> None:
    made = json.loads(json.dumps(chosen("dflash", tmp_path, 7).describe()))
    assert made["method"] == "dflash" and made["quantization"] == "none" and made["tokens"] == 7
    assert made["drafter"]["sources"] == [f"path:{tmp_path}/drafter"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"method": "medusa"}, "dflash, eagle3"),
        ({"method": "ngram", "tokens": 0}, "1 or more"),
        ({"method": "ngram", "tokens": True}, "1 or more"),
        ({"method": "dflash", "tokens": 7}, "drafter="),
        ({"method": "dflash", "drafter": Weights("path:/d")}, "quantization="),
        ({"method": "ngram", "drafter": Weights("path:/d")}, "no drafter"),
        ({"method": "mtp", "quantization": "fp8"}, "no drafter"),
        ({"method": "off", "tokens": 3}, "nothing else"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Speculation(**arguments)


def test_the_flags_are_the_engines_own() -> None:
    names = (
        "algorithm",
        "draft_model_path",
        "draft_model_quantization",
        "dflash_block_size",
        "num_steps",
        "eagle_topk",
    )
    for version in flags("sglang").versions:
        assert all(flags("sglang").by_name[f"speculative_{name}"].known_in(version) for name in names)


@pytest.mark.parametrize(
    ("method", "member", "told"),
    [
        ("dflash", "DRAFT_DFLASH", {"draft.n_max": 5, "draft.cpuparams.n_threads": 2}),
        ("eagle3", "DRAFT_EAGLE3", {"draft.n_max": 5, "draft.cpuparams.n_threads": 2}),
        ("draft", "DRAFT_SIMPLE", {"draft.n_max": 5, "draft.cpuparams.n_threads": 2}),
        ("mtp", "DRAFT_MTP", {"draft.n_max": 5, "draft.cpuparams.n_threads": 2}),
        ("ngram", "NGRAM_SIMPLE", {"ngram_simple.size_n": 4, "ngram_simple.size_m": 5}),
    ],
)
def test_llamacpp_is_told(method: str, member: str, told: dict[str, int], tmp_path: Path) -> None:
    found = parameters(chosen(method, tmp_path, 5), threads=2, extra={})
    assert found["speculative.types"]["members"] == [f"COMMON_SPECULATIVE_TYPE_{member}"]
    assert {f"speculative.{name}": value for name, value in told.items()}.items() <= found.items()


def test_llamacpp_is_told_nothing_of_no_drafter_and_one_thing_of_one(tmp_path: Path) -> None:
    assert parameters(Speculation("off"), threads=1, extra={"speculative.types": "ngram-simple"}) == {}
    with pytest.raises(InvalidInput, match="both say how it speculates"):
        LlamaCpp(Weights(f"path:{tmp_path}"), speculation=Speculation("ngram"), extra={"speculative.types": "none"})


def test_llamacpp_reads_a_drafter_from_a_gguf_file(tmp_path: Path) -> None:
    file = tmp_path / "drafter.gguf"
    file.write_bytes(b"GGUF and more")
    assert drafter_file(file) == file
    file.write_bytes(b"safetensors")
    for wrong in (file, tmp_path):
        with pytest.raises(DrafterUnfit, match="outrider drafter export"):
            drafter_file(wrong)


@pytest.mark.parametrize("engine", [LlamaCpp, VLLM, SGLang])
def test_a_methods_name_is_no_speculation(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"outrider\.Speculation\('dflash', …\)"):
        engine(Weights(f"path:{tmp_path}"), Installed("vllm", "0.32.0"), speculation="dflash")
