"""What a spec brings of its own, planned: weights compared, drafters checked, adapters pinned; and the file of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.app.source import describe, load
from outrider.errors import AdapterUnfit, DrafterUnfit, WeightsUnavailable, WeightsUnfit
from outrider.models.adapter import read_adapter
from outrider.models.cache import Cache
from outrider.models.checked import OwnWeights
from outrider.models.drafter import read_drafter
from outrider.models.tokenizer import TokenizerFacts
from outrider.recipes.explain import explain
from outrider.recipes.library import Catalog, load_catalog
from outrider.recipes.plan import Decision, Plan
from outrider.recipes.planner import plan
from outrider.recipes.proposal import outcome
from outrider.recipes.reading import NONE, AdapterFiles, Files, files_of_spec
from outrider.recipes.render import render
from outrider.spec.endpoint import parse
from outrider.spec.facts import ModelFacts
from tests.engines.tiny_lora import write_adapter
from tests.models.drafter_files import SPECULATORS, ZLAB, write
from tests.recipes.test_render_engines import MACHINE, SGLANG

SMALL = "HuggingFaceTB/SmolLM2-135M-Instruct"
QWEN = "Qwen/Qwen3-8B"
FACTS = """\
  facts:
    {format: safetensors, architecture: Qwen3ForCausalLM, source: config.json of Qwen/Qwen3-8B, layers: 36,
     hidden_size: 4096, vocab_size: 151936, context_length: 40960, parameters: 8190735360, heads: 32, kv_heads: 8,
     head_dim: 128, ffn_size: 12288}
"""
OPTION = """\
drafters:
  - method: dflash
    drafter: hf:z-lab/Qwen3-8B-DFlash-b16
    quantization: none
    tokens: 7
    trained_on: {modes: [thinking]}
    source: its card
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """One recipe for Qwen3-8B with a drafter; the shipped ones beside it are of other models."""
    own = "  facts: {format: safetensors, architecture: qwen3, source: config.json of Qwen/Qwen3-8B}\n"
    assert own in SGLANG
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/qwen.yaml").write_text(SGLANG.replace(own, FACTS) + OPTION)
    return load_catalog([tmp_path / "mine"])


def planned(catalog: Catalog, facts: ModelFacts | None = None, files: Files = NONE, **spec: Any) -> Plan:
    given = {"model": QWEN, "recipe": "qwen3-8b/sglang-h200", **spec}
    return plan(parse(given), MACHINE, catalog, facts, files)


def own(catalog: Catalog, **changes: Any) -> ModelFacts:
    """Facts of weights like the catalog model's, but for the changes, read from files."""
    base = catalog.get("qwen3-8b/sglang-h200").model.facts
    read = {"source": "config.json of mine", "architecture": "qwen3", "file_bytes": 16_400_000_000}
    return base.model_copy(update=read | changes)


def decision(made: Plan, choice: str) -> Decision:
    return next(one for one in made.decisions if one.choice == choice)


def test_fine_tuned_weights_keep_the_recipe_and_say_what_was_compared(catalog: Catalog) -> None:
    made = planned(catalog, own(catalog), weights="path:/mine")
    assert made.speculation.method == "dflash"
    notes = decision(made, "weights").notes
    assert notes[0] == "tokenizer: not compared, your weights bring none"
    assert "issues/533" in notes[1] and len(notes) == 2
    shown = [line.text for _, line in explain(made).walk()]
    assert set(notes) <= set(shown)


def test_each_difference_is_named_and_measured_figures_go(catalog: Catalog) -> None:
    made = planned(catalog, own(catalog, layers=40, ffn_size=13000), weights="path:/mine")
    notes = decision(made, "weights").notes
    assert "layers: 40, the catalog model has 36: memory and speed are computed anew" in notes
    assert "feed-forward size: 13,000, the catalog model has 12,288: memory and speed are computed anew" in notes
    assert made.provenance.status == "untested" and "layers: 40" in made.provenance.note
    as_it_was = planned(catalog)
    assert made.memory is not None and as_it_was.memory is not None
    assert made.memory.needed != as_it_was.memory.needed


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"vocab_size": 152000}, "vocabulary"), ({"layers": 40}, "layers"), ({"hidden_size": 2048}, "hidden size")],
)
def test_a_drafter_made_for_another_model_is_dropped(catalog: Catalog, changes: dict[str, int], what: str) -> None:
    made = planned(catalog, own(catalog, **changes), weights="path:/mine")
    assert made.speculation.method == "off"
    assert f"another {what}" in decision(made, "drafter").reason
    assert any(note.startswith("drafter: hf:z-lab/") and what in note for note in decision(made, "weights").notes)
    assert decision(made, "drafter").rejected == ("dflash: the recipe's",)


def test_the_context_is_what_the_weights_were_trained_for(catalog: Catalog) -> None:
    made = planned(catalog, own(catalog, context_length=4096), weights="path:/mine")
    assert {flag.name: flag.value for flag in made.flags}["context"] == 4096
    assert "context: trained for 4,096 tokens, the catalog model for 40,960" in decision(made, "weights").notes


def test_tokenizers_are_compared_where_both_are_here(catalog: Catalog) -> None:
    base = TokenizerFacts(source="a", size=151669, special={"eos": 151645}, template="0" * 64)
    files = Files(tokenizer=replace(base, special={"eos": 5}, template=None), catalog_tokenizer=base)
    notes = decision(planned(catalog, own(catalog), files, weights="path:/mine"), "weights").notes
    assert notes[:2] == (
        "eos token: id 5, the catalog model's is 151645",
        "chat template: none, the catalog model's is SHA-256 000000000000…",
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architecture": "llama"}, "architecture: llama, the catalog model's is Qwen3ForCausalLM"),
        ({"format": "gguf"}, "it reads safetensors"),
    ],
)
def test_what_the_recipe_cannot_serve_is_refused(catalog: Catalog, changes: dict[str, str], said: str) -> None:
    with pytest.raises(WeightsUnfit) as caught:
        planned(catalog, own(catalog, **changes), weights="path:/mine")
    assert said in (caught.value.why or "")


def test_weights_that_are_not_here_are_compared_before_the_engine_starts(catalog: Catalog, tmp_path: Path) -> None:
    made = planned(catalog, weights="hf:me/mine@abc")
    assert "compared with the catalog model before the engine starts" in decision(made, "weights").reason
    assert outcome(made.model_dump(mode="json"))["weights"]["sources"] == ["hf:me/mine@abc"]
    assert "base" not in outcome(made.model_dump(mode="json"))["weights"]
    source = render(made, version="0")
    golden = Path(__file__).with_name("golden") / "own-weights.py.golden"
    assert source == golden.read_text(), "if the change is meant, write the new text there"
    file = tmp_path / "serve.py"
    file.write_text(source)
    weights = load(file)[1].__dict__["engine"].weights
    assert isinstance(weights, OwnWeights) and weights.base == made.weights.base
    assert describe(file)["weights"] == {"sources": ["hf:me/mine@abc"], "sha256": None}


def test_weights_that_were_compared_are_not_compared_again(catalog: Catalog) -> None:
    for made in (planned(catalog, own(catalog), weights="hf:me/mine@abc"), planned(catalog)):
        assert made.weights.base is None
        assert "WEIGHTS = outrider.Weights(" in render(made, version="0")


def test_facts_of_another_format_than_the_engine_reads_are_no_base(catalog: Catalog) -> None:
    recipe = catalog.get("qwen3-8b/sglang-h200")
    facts = recipe.model.facts.model_copy(update={"format": "gguf"})
    model = recipe.model.model_copy(update={"facts": facts})
    odd = Catalog([recipe.model_copy(update={"model": model})], ["here"])
    made = planned(odd, weights="hf:me/mine@abc")
    assert made.weights.base is None
    assert "not compared with the catalog model" in decision(made, "weights").reason


@pytest.mark.parametrize("config", [ZLAB, SPECULATORS])
def test_a_drafter_is_read_and_checked(catalog: Catalog, tmp_path: Path, config: dict[str, Any]) -> None:
    files = Files(drafter=read_drafter(write(tmp_path / "d", config)))
    made = planned(catalog, files=files, drafter="path:/d")
    assert made.speculation.method == "dflash" and made.speculation.drafter == "path:/d"
    assert made.speculation.tokens == 7 and made.speculation.quantization == "none"
    source = render(made, version="0")
    assert "outrider.DraftWeights(" in source and 'method="dflash"' in source
    compile(source, "serve.py", "exec")


def test_a_drafter_that_does_not_fit_is_refused_with_every_finding(catalog: Catalog, tmp_path: Path) -> None:
    wrong = ZLAB | {"hidden_size": 2048, "rope_theta": None, "dflash_config": {"mask_token_id": 999999}}
    files = Files(drafter=read_drafter(write(tmp_path / "d", wrong)))
    with pytest.raises(DrafterUnfit) as caught:
        planned(catalog, files=files, drafter="path:/d")
    found = [(one["field"], one["severity"]) for one in caught.value.details["findings"]]
    assert found == [("hidden_size", "refuse"), ("mask_id", "refuse"), ("rope", "warn")]


def test_warnings_reach_the_plan_with_the_recipes_word_on_modes(catalog: Catalog, tmp_path: Path) -> None:
    tokenizer = TokenizerFacts(source="t", modes=("thinking", "non-thinking"))
    files = Files(tokenizer=tokenizer, drafter=read_drafter(write(tmp_path / "d", ZLAB)))
    notes = decision(planned(catalog, files=files, drafter="hf:z-lab/Qwen3-8B-DFlash-b16@abc"), "drafter").notes
    assert len(notes) == 2 and "trained on thinking answers" in notes[0]
    assert notes[1] == "sglang 0.5.15.post1 refuses JSON schemas and forced tool calls while it drafts with it"


def test_a_drafter_of_the_hub_is_checked_later_and_the_plan_says_so(catalog: Catalog) -> None:
    listed = planned(catalog, drafter="hf:z-lab/Qwen3-8B-DFlash-b16@abc")
    assert (listed.speculation.method, listed.speculation.tokens) == ("dflash", 7)
    assert decision(listed, "drafter").notes[1] == "the recipe says: trained on thinking answers"
    named = planned(catalog, drafter="hf:me/my-EAGLE3-head")
    assert named.speculation.method == "eagle3" and "by its name" in named.speculation.reason
    for made in (listed, named):
        assert "outrider model pull" in decision(made, "drafter").notes[0]
    with pytest.raises(DrafterUnfit, match="Nobody knows what kind"):
        planned(catalog, drafter="hf:me/something")


def test_words_are_taken_where_engine_and_model_allow(catalog: Catalog) -> None:
    assert planned(catalog, drafter="ngram").speculation.method == "ngram"
    assert planned(catalog, drafter="off").speculation.method == "off"
    with pytest.raises(DrafterUnfit, match="'mtp'"):
        planned(catalog, drafter="mtp")


def test_an_engine_too_old_for_a_kind_is_refused_by_version(catalog: Catalog, tmp_path: Path) -> None:
    config = ZLAB | {"architectures": ["DFlash2DraftModel"]}
    files = Files(drafter=read_drafter(write(tmp_path / "d", config)))
    with pytest.raises(DrafterUnfit) as caught:
        planned(catalog, files=files, drafter="path:/d")
    assert "SGLang 0.5.15.post1 was not seen to load dflash2 drafters" in (caught.value.why or "")
    assert "SGLang 0.5.23" in caught.value.details["loaders"]


def adapted(tmp_path: Path, **shape: Any) -> Files:
    directory = write_adapter(tmp_path / "polite", **{"hidden": 4096, "writes": 4096, "layers": 1, "rank": 1, **shape})
    return Files(adapters={"polite": AdapterFiles(read_adapter(directory), "a" * 64, 2**20)})


def test_adapters_are_pinned_and_stand_in_the_file(catalog: Catalog, tmp_path: Path) -> None:
    adapters = {"polite": "path:/polite", "later": "hf:me/later@abc"}
    made = planned(catalog, files=adapted(tmp_path), adapters=adapters)
    assert [(one.name, one.sha256, one.rank) for one in made.adapters] == [
        ("polite", "a" * 64, 1),
        ("later", None, None),
    ]
    assert "rank 1 on q_proj, trained on HuggingFaceTB/" in decision(made, "adapter polite").reason
    assert "checked before the engine starts" in decision(made, "adapter later").reason
    assert outcome(made.model_dump(mode="json"))["adapters"]["polite"] == {"source": "path:/polite", "sha256": "a" * 64}
    file = tmp_path / "serve.py"
    file.write_text(render(made, version="0"))
    said = describe(file)["engine"]["adapters"]
    assert said["polite"] == {"sources": ["path:/polite"], "sha256": "a" * 64}
    assert said["later"] == {"sources": ["hf:me/later@abc"], "sha256": None}


def test_adapters_that_are_here_are_counted_in_the_memory(catalog: Catalog, tmp_path: Path) -> None:
    adapters = {"polite": "path:/polite", "later": "hf:me/later@abc"}
    made = planned(catalog, files=adapted(tmp_path), adapters=adapters)
    # The drafter beside which it was planned cannot run with adapters, so the same without is the base.
    without = planned(catalog, drafter="off")
    assert made.memory is not None and without.memory is not None
    assert [(part.name, part.bytes) for part in made.memory.parts][-1] == ("adapters", 2**20)
    assert made.memory.needed == (without.memory.needed or 0) + 2**20
    assert "their memory is not counted" in decision(made, "adapter later").reason


def test_a_drafter_that_cannot_run_beside_adapters_is_dropped_or_refused(catalog: Catalog) -> None:
    made = planned(catalog, adapters={"polite": "hf:me/polite"})
    assert made.speculation.method == "off"
    assert "runs adapters beside ngram only, not dflash" in decision(made, "drafter").reason
    assert decision(made, "drafter").rejected == ("dflash: the recipe's",)
    assert planned(catalog, adapters={"polite": "hf:me/polite"}, drafter="ngram").speculation.method == "ngram"
    with pytest.raises(DrafterUnfit, match="beside adapters"):
        planned(catalog, adapters={"polite": "hf:me/polite"}, drafter="hf:z-lab/Qwen3-8B-DFlash-b16")


def test_an_adapter_of_another_width_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(AdapterUnfit, match="'polite' does not fit"):
        planned(catalog, files=adapted(tmp_path, hidden=64), adapters={"polite": "path:/polite"})


def test_adapters_lead_to_an_engine_that_has_them() -> None:
    shipped = load_catalog([])
    made = plan(parse({"model": SMALL, "adapters": {"a": "hf:me/a"}}), MACHINE, shipped)
    assert made.engine in ("vllm", "sglang")
    assert any("llamacpp" in line and "adapters by number" in line for line in decision(made, "recipe").rejected)
    with pytest.raises(AdapterUnfit, match=r"llama\.cpp cannot choose an adapter"):
        plan(parse({"model": SMALL, "engine": "llamacpp", "adapters": {"a": "hf:me/a"}}), MACHINE, shipped)


def test_files_are_read_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog: Catalog) -> None:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    adapter = write_adapter(tmp_path / "a", hidden=8, writes=8)
    drafter = write(tmp_path / "d", ZLAB)
    spec = {"model": QWEN, "drafter": f"path:{drafter}", "adapters": {"a": f"path:{adapter}", "b": "hf:me/b"}}
    files = files_of_spec(parse(spec), catalog)
    assert files.drafter is not None and files.drafter.kind == "dflash"
    assert set(files.adapters) == {"a"}
    before = files.adapters["a"].sha256
    assert before == Cache(tmp_path / "elsewhere").memory.digest(adapter, lambda progress: None)
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2}))
    assert files_of_spec(parse(spec), catalog).adapters["a"].sha256 != before, "another adapter is another revision"
    with pytest.raises(WeightsUnavailable, match="Nothing lies at"):
        files_of_spec(parse({"model": QWEN, "adapters": {"a": f"path:{tmp_path}/nope"}}), catalog)


def test_no_difference_is_said_too(catalog: Catalog) -> None:
    tokenizer = TokenizerFacts(source="t", size=151669)
    files = Files(tokenizer=tokenizer, catalog_tokenizer=tokenizer)
    made = planned(catalog, own(catalog), files, weights="path:/mine", drafter="off")
    assert [note for note in decision(made, "weights").notes if not note.startswith("drafter:")] == []
    shipped = load_catalog([])
    base = shipped.get("smollm2-135m-instruct/llamacpp-cpu").model.facts
    spec = {"model": SMALL, "engine": "llamacpp", "weights": "path:/same.gguf"}
    same = plan(parse(spec), MACHINE, shipped, base.model_copy(update={"source": "header of same.gguf"}), files)
    assert "no difference was found" in decision(same, "weights").reason
