"""Adapters and drafters are held against the model before an engine starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.app.server import Progress
from outrider.errors import AdapterUnfit, DrafterUnfit, WeightsCorrupt
from outrider.models.checked import Adapter, DraftWeights
from outrider.models.weights import Weights
from tests.engines.tiny_lora import write_adapter
from tests.models.drafter_files import write_tiny

pytestmark = pytest.mark.usefixtures("cache_root")


@pytest.fixture
def base(tmp_path: Path) -> Weights:
    directory = tmp_path / "base"
    directory.mkdir()
    config = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 128, "vocab_size": 32}
    (directory / "config.json").write_text(json.dumps(config | {"num_attention_heads": 2, "head_dim": 64}))
    return Weights(f"path:{directory}")


def test_an_adapter_knows_its_rank_once_it_was_checked(tmp_path: Path, base: Weights) -> None:
    made = Adapter(f"path:{write_adapter(tmp_path / 'a', hidden=128, writes=128, rank=6)}", base=base)
    seen: list[Progress] = []
    assert made.prepare(seen.append) == tmp_path / "a"
    assert made.rank == 6
    assert "checking the adapter a" in [progress.detail for progress in seen]


def test_an_adapter_of_another_model_is_refused(tmp_path: Path, base: Weights) -> None:
    made = Adapter(f"path:{write_adapter(tmp_path / 'a', hidden=64, writes=128)}", base=base)
    with pytest.raises(AdapterUnfit, match=r"does not fit config\.json of base"):
        made.prepare(lambda progress: None)


def test_an_adapter_is_what_its_digest_promised(tmp_path: Path, base: Weights) -> None:
    made = Adapter(f"path:{write_adapter(tmp_path / 'a', hidden=128, writes=128)}", base=base, sha256="0" * 64)
    with pytest.raises(WeightsCorrupt):
        made.prepare(lambda progress: None)


def test_a_drafter_is_held_against_its_target(tmp_path: Path, base: Weights) -> None:
    right = write_tiny(tmp_path / "d", hidden=128, target_layers=8, vocab=32, mask=30, taps=(1, 5))
    seen: list[Progress] = []
    assert DraftWeights(f"path:{right}", target=base, method="dflash", tokens=3).prepare(seen.append) == right
    with pytest.raises(DrafterUnfit, match="served as eagle3"):
        DraftWeights(f"path:{right}", target=base, method="eagle3").prepare(seen.append)
    wrong = write_tiny(tmp_path / "w", hidden=128, target_layers=9, vocab=32, mask=99, taps=(1, 5))
    with pytest.raises(DrafterUnfit) as caught:
        DraftWeights(f"path:{wrong}", target=base, method="dflash", tokens=9).prepare(seen.append)
    fields = [finding["field"] for finding in caught.value.details["findings"]]
    assert fields == ["layer_ids", "mask_id", "block_size"]
    assert all(finding["source"] for finding in caught.value.details["findings"])
