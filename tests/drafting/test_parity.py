"""Equal to z-lab's own implementation (`dflash` 0.1.0) on the same random weights; see ``golden/zlab.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from outrider.drafting import checkpoint
from outrider.drafting.config import DraftConfig
from outrider.drafting.model import DFlash
from outrider.drafting.proposers import DraftProposer
from outrider.drafting.reference import generate
from outrider.drafting.target import Target

from .golden.zlab import CASES, LENGTHS, document

cases = pytest.mark.parametrize("case", CASES)


@pytest.fixture(scope="module")
def golden() -> dict[str, Tensor]:
    """What the package gave."""
    return load_file(Path(__file__).parent / "golden/zlab.safetensors")


def part(golden: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors below a prefix."""
    return {name.removeprefix(prefix): value for name, value in golden.items() if name.startswith(prefix)}


def drafter(golden: dict[str, Tensor], case: str) -> DFlash:
    """Ours, with the package's weights."""
    config = DraftConfig.parse(document(case))
    weights = part(golden, f"{case}.weights.")
    checkpoint.check(config, {name: tuple(value.shape) for name, value in weights.items()})
    made = DFlash(config)
    made.load_state_dict(weights)
    return made.eval()


@cases
@torch.no_grad()
def test_hidden_states_of_three_cached_steps(golden: dict[str, Tensor], case: str) -> None:
    ours, start, context = drafter(golden, case), 0, None
    for step, length in enumerate(LENGTHS):
        given = part(golden, f"{case}.{step}.")
        new = ours.project_context(given["features"], torch.arange(start, start + length)[None])
        context = context.append(new) if context else new
        start += length
        hidden = ours.forward_block(given["embeds"], torch.arange(start, start + 4)[None], context)
        torch.testing.assert_close(hidden, given["hidden"], atol=2e-5, rtol=1e-4)
        if ours.candidate_selector is not None:
            walk = ours.candidate_selector.walk(hidden[:, 1:], given["logits"], given["anchor"])
            assert torch.equal(walk.tokens, given["path"])


@cases
def test_the_loop_says_the_same(golden: dict[str, Tensor], case: str) -> None:
    common: dict[str, Any] = {k: v for k, v in document("full").items() if k not in ("dflash_config", "block_size")}
    model = Qwen3ForCausalLM(Qwen3Config(**common | {"num_hidden_layers": 5, "tie_word_embeddings": True}))
    model.load_state_dict(part(golden, "target."))
    ours = drafter(golden, case)
    target = Target(model, ours.config.target_layer_ids)
    prompt, expected = golden[f"{case}.prompt"][0].tolist(), golden[f"{case}.answer"][0].tolist()
    assert generate(target, prompt, DraftProposer(ours, target), max_tokens=24).tokens == expected


@cases
def test_transformers_reads_what_is_written(case: str) -> None:
    ours = DraftConfig.parse(document(case))
    theirs: Any = Qwen3Config(**ours.emit())
    assert theirs.sliding_window == ours.sliding_window
    assert tuple(theirs.layer_types) == ours.layer_types
    assert theirs.rope_parameters["rope_theta"] == ours.rope_theta
    assert theirs.rope_parameters["rope_type"] == (ours.rope_scaling or {"rope_type": "default"})["rope_type"]
    assert (theirs.head_dim, theirs.rms_norm_eps) == (ours.head_dim, ours.rms_norm_eps)
