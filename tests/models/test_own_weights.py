"""Own weights of the hub are held against the catalog model once they are here, before an engine starts."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.app.server import Progress
from outrider.errors import WeightsUnfit, WeightsUnreadable
from outrider.models.checked import Adapter, OwnWeights
from outrider.recipes.comparison import rested_on
from outrider.recipes.library import load_catalog
from outrider.spec.facts import ModelFacts
from tests.engines.tiny_lora import write_adapter
from tests.models.hub_server import COMMIT, Hub, serve
from tests.models.test_facts import TINY

REFERENCE = f"hf:org/model@{COMMIT}"
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 8,
    "hidden_size": 128,
    "intermediate_size": 512,
    "vocab_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
BASE = ModelFacts(
    source="recipe tiny/vllm version 1",
    format="safetensors",
    architecture="LlamaForCausalLM",
    layers=8,
    hidden_size=128,
    ffn_size=512,
    heads=2,
    kv_heads=1,
    head_dim=64,
    vocab_size=32,
    context_length=4096,
    quantisation="bfloat16",
    has_chat_template=True,
)
TEMPLATE = {"chat_template": "{{ messages }}"}


@pytest.fixture
def hub(cache_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serve({}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        # Read once, when the package is first imported: whatever test that was in.
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_HOME", str(cache_root.parent / "hf"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


def offer(hub: Hub, *, template: bool = True, **changes: object) -> None:
    """What the hub has as ``org/model``: like the catalog model, but for the changes."""
    hub.files["config.json"] = json.dumps(CONFIG | changes).encode()
    hub.files["tokenizer_config.json"] = json.dumps(TEMPLATE if template else {}).encode()


def prepared(base: ModelFacts = BASE, reference: str = REFERENCE) -> list[str]:
    """What was reported of the differences."""
    seen: list[Progress] = []
    OwnWeights(reference, base=base).prepare(seen.append)
    return [step.detail.removeprefix("weights: ") for step in seen if step.detail.startswith("weights: ")]


def test_a_fine_tune_of_the_catalog_model_is_taken(hub: Hub) -> None:
    offer(hub)
    assert prepared() == []
    assert {name for name, _ in hub.downloads} == {"config.json", "tokenizer_config.json"}


def test_each_size_that_memory_follows_from_is_refused_with_all_the_others(hub: Hub) -> None:
    offer(hub, num_hidden_layers=10, intermediate_size=768, vocab_size=40)
    with pytest.raises(WeightsUnfit) as caught:
        prepared()
    assert caught.value.what == f"{REFERENCE} is of other sizes than it was planned with"
    assert caught.value.why == (
        "layers: 10, the catalog model has 8; feed-forward size: 768, the catalog model has 512:"
        " memory was computed for the recipe tiny/vllm version 1"
    )
    assert f"outrider model pull '{REFERENCE}'" in caught.value.remedy
    assert caught.value.details["differences"][-1] == "vocabulary: 40 rows, the catalog model has 32"


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"hidden_size": 256}, "hidden size: 256, the catalog model has 128"),
        ({"num_attention_heads": 4}, "heads: 4, the catalog model has 2"),
        ({"num_key_value_heads": 2}, "KV heads: 2, the catalog model has 1"),
        ({"head_dim": 32}, "head dimension: 32, the catalog model has 64"),
        ({"torch_dtype": "float32"}, "precision: float32, the recipe's is bfloat16"),
    ],
)
def test_it_is_refused_for_one(hub: Hub, changes: dict[str, Any], what: str) -> None:
    offer(hub, **changes)
    with pytest.raises(WeightsUnfit) as caught:
        prepared()
    assert what in (caught.value.why or "")
    assert len(caught.value.details["differences"]) == 1


def test_experts_are_sizes_too(hub: Hub) -> None:
    offer(hub, num_local_experts=16, num_experts_per_tok=2)
    with pytest.raises(WeightsUnfit, match="experts: 16, the catalog model has 8"):
        prepared(BASE.model_copy(update={"experts": 8, "experts_per_token": 2}))


def test_another_architecture_is_refused(hub: Hub) -> None:
    offer(hub, model_type="qwen3")
    with pytest.raises(WeightsUnfit, match="architecture: qwen3, the catalog model's is LlamaForCausalLM"):
        prepared()


def test_another_format_is_refused(hub: Hub) -> None:
    hub.files["tiny.gguf"] = TINY
    with pytest.raises(WeightsUnfit, match="format: gguf, the catalog model's is safetensors"):
        prepared(reference=f"{REFERENCE}#tiny.gguf")


def test_what_is_no_model_is_refused(hub: Hub) -> None:
    hub.files["readme.txt"] = b"nothing here"
    with pytest.raises(WeightsUnreadable):
        prepared(reference=f"{REFERENCE}#readme.txt")


def test_other_differences_are_told_and_stay_in_the_log(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    offer(hub, template=False, vocab_size=40, max_position_embeddings=2048, quantization_config={"quant_method": "fp8"})
    with caplog.at_level(logging.WARNING, "outrider"):
        told = prepared()
    assert told == [
        "precision: fp8, the recipe's is bfloat16: its figures do not hold for them",
        "vocabulary: 40 rows, the catalog model has 32",
        "context: trained for 2,048 tokens, the catalog model for 4,096",
        "chat template: none, the catalog model has one; chat is refused or guessed by the engine",
    ]
    assert [record.getMessage() for record in caplog.records] == [f"weights: {line}" for line in told]


def test_a_precision_that_nobody_knows_is_told_and_not_refused(hub: Hub) -> None:
    offer(hub, quantization_config={"quant_method": "from-tomorrow"})
    assert prepared() == ["precision: from-tomorrow, the recipe's is bfloat16: its figures do not hold for them"]


def test_a_fact_that_the_plan_does_not_know_is_not_compared(hub: Hub) -> None:
    offer(hub, num_hidden_layers=10)
    assert prepared(BASE.model_copy(update={"layers": None})) == []


def test_they_are_compared_once_though_adapters_ask_again(hub: Hub, tmp_path: Path) -> None:
    offer(hub, vocab_size=40)
    weights, seen = OwnWeights(REFERENCE, base=BASE), list[Progress]()
    weights.prepare(seen.append)
    adapter = Adapter(f"path:{write_adapter(tmp_path / 'a', hidden=128, writes=128)}", base=weights)
    adapter.prepare(seen.append)
    assert sum("vocabulary" in step.detail for step in seen) == 1


def test_the_real_model_is_what_the_catalog_says(cache_root: Path, model: Path) -> None:
    base = rested_on(load_catalog([]).get("smollm2-135m-instruct/llamacpp-cpu"))
    assert base is not None and base.source == "recipe smollm2-135m-instruct/llamacpp-cpu version 2"
    assert prepared(base, f"path:{model}") == []


def test_a_replica_of_them_fails_before_its_engine_starts(hub: Hub, tmp_path: Path) -> None:
    offer(hub, num_hidden_layers=10)
    file = tmp_path / "serve.py"
    facts = ", ".join(f"{name}={value!r}" for name, value in BASE.model_dump(exclude_defaults=True).items())
    file.write_text(
        "import outrider\n"
        f"WEIGHTS = outrider.OwnWeights({REFERENCE!r}, base=outrider.ModelFacts({facts}))\n"
        "app = outrider.App('own')\n"
        "@app.server()\n"
        "class Server:\n"
        "    weights = WEIGHTS\n"
        "    @outrider.enter()\n"
        "    def start(self): raise SystemExit('started')\n"
    )
    argv = [sys.executable, "-m", "outrider.app.runner", str(file), "--directory", str(tmp_path / "replica")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    left = json.loads((tmp_path / "replica/exit.json").read_text())
    assert (done.returncode, left["error"]["code"]) == (2, "weights_unfit")
    assert left["error"]["details"]["differences"] == ["layers: 10, the catalog model has 8"]
