from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.drafting.speculators_format import (
    export_speculators,
    from_speculators,
    import_speculators,
    to_speculators,
)
from outrider.errors import DrafterUnfit, InvalidDrafter
from outrider.models.drafter import read_drafter

from .random_drafter import PLAIN, SECOND, write


def export(source: Path, target: Path) -> Path:
    return export_speculators(source, target, verifier="org/Small", verifier_architecture="LlamaForCausalLM")


def test_there_and_back_is_the_same_drafter(tmp_path: Path) -> None:
    source = write(tmp_path / "drafter")
    made = export(source, tmp_path / "speculators")
    back = import_speculators(made, tmp_path / "back", target_layers=30)
    for name in ("config.json", "model.safetensors"):
        assert (back / name).read_bytes() == (source / name).read_bytes()


def test_layers_are_counted_as_speculators_does(tmp_path: Path) -> None:
    made = export(write(tmp_path / "drafter"), tmp_path / "speculators")
    config = json.loads((made / "config.json").read_text())
    assert config["aux_hidden_state_layer_ids"] == [2, 15, 28]
    assert config["speculators_config"]["proposal_methods"] == [{"proposal_type": "greedy", "speculative_tokens": 7}]
    assert config["speculators_config"]["verifier"]["name_or_path"] == "org/Small"
    facts = read_drafter(made)
    assert (facts.format, facts.taps, facts.mask_token_id, facts.block_size) == ("speculators", (1, 14, 27), 5, 8)
    assert facts.tensors == read_drafter(tmp_path / "drafter").tensors


def test_a_dflash_2_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDrafter, match="DFlash 2"):
        export(write(tmp_path / "drafter", SECOND), tmp_path / "speculators")
    assert not (tmp_path / "speculators").exists()


def test_what_was_not_written_whole_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "drafter")
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3, "layer_types": None}))
    with pytest.raises(InvalidDrafter, match=r"layers\.2\.\S+ is missing"):
        export(source, tmp_path / "speculators")
    (source / "config.json").write_text(json.dumps(config | {"intermediate_size": 512}))
    with pytest.raises(InvalidDrafter, match=r"is \[576, 768\], not \[576, 512\]"):
        export(source, tmp_path / "speculators")


@pytest.mark.parametrize("changed", [{"speculators_model_type": "eagle3"}, {"draft_vocab_size": 32000}])
def test_only_a_dflash_of_the_whole_vocabulary_comes_back(changed: dict[str, object]) -> None:
    described = to_speculators(PLAIN, verifier="org/Small", verifier_architecture="LlamaForCausalLM")
    assert from_speculators(described, target_layers=30) == PLAIN
    with pytest.raises(DrafterUnfit, match="whole vocabulary"):
        from_speculators(described | changed, target_layers=30)
