"""DFlash against what it must equal: itself without a cache, itself in training, and z-lab's own formulas."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask

from outrider.drafting.config import FULL, SLIDING
from outrider.drafting.model import DFlash
from outrider.drafting.widening import widen
from outrider.errors import InvalidDrafter

from . import tiny

SHAPES: dict[str, dict[str, Any]] = {
    "full": {},
    "sliding": {"layer_types": (SLIDING, SLIDING), "sliding_window": 5, "is_causal": False},
    "mixed, causal where it slides": {"layer_types": (SLIDING, FULL), "sliding_window": 5},
    "causal": {"is_causal": True},
    "dflash 2": tiny.DFLASH2,
    "dflash 2, sliding": {**tiny.DFLASH2, "layer_types": (SLIDING, SLIDING), "sliding_window": 5, "is_causal": False},
    "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}},
}
shapes = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def block(drafter: DFlash, features: Tensor, embeds: Tensor, anchor: int) -> Tensor:
    """What a block at ``anchor`` gives, in one go: all context before it is projected at once."""
    context = drafter.project_context(features[:, :anchor], torch.arange(anchor).expand(features.shape[0], -1))
    return drafter.forward_block(embeds, torch.arange(anchor, anchor + embeds.shape[1])[None], context)


def training_mask(anchors: list[int], documents: Tensor, size: int) -> Tensor:
    """Who sees whom in training, written out pair by pair (research/dflash §1.5), ``[1, 1, R, S + R]``."""
    length, rows = documents.shape[0], len(anchors) * size
    mask = torch.zeros(rows, length + rows, dtype=torch.bool)
    for row in range(rows):
        anchor = anchors[row // size]
        for column in range(length):
            mask[row, column] = column < anchor and bool(documents[column] == documents[anchor])
        for other in range(rows):
            mask[row, length + other] = row // size == other // size
    return mask[None, None]


@shapes
@torch.no_grad()
def test_a_block_with_a_cache_equals_one_without(shape: dict[str, Any]) -> None:
    drafter = tiny.drafter(tiny.config(**shape))
    features, positions = tiny.features(11)
    embeds = tiny.embeds(4)
    cached = drafter.project_context(features[:, :3], positions[:, :3])
    for start, end in ((3, 4), (4, 8), (8, 11)):
        cached = cached.append(drafter.project_context(features[:, start:end], positions[:, start:end]))
    got = drafter.forward_block(embeds, torch.arange(11, 15)[None], cached)
    torch.testing.assert_close(got, block(drafter, features, embeds, 11))


@shapes
@pytest.mark.parametrize("anchor", [0, 1, 4, 9])
def test_training_at_one_anchor_equals_inference_there(shape: dict[str, Any], anchor: int) -> None:
    drafter = tiny.drafter(tiny.config(**shape))
    features, positions = tiny.features(12)
    embeds = tiny.embeds(4)
    mask = training_mask([anchor], torch.zeros(12), 4)
    whole = drafter.project_context(features, positions)
    got = drafter.forward_block(embeds, torch.arange(anchor, anchor + 4)[None], whole, mask)
    torch.testing.assert_close(got, block(drafter, features, embeds, anchor))


@shapes
def test_many_anchors_equal_each_alone(shape: dict[str, Any]) -> None:
    drafter = tiny.drafter(tiny.config(**shape))
    features, _ = tiny.features(14)
    documents = torch.tensor([0] * 8 + [1] * 6)
    positions = torch.cat((torch.arange(8), torch.arange(6)))[None]  # the second document starts over
    anchors = [2, 5, 9, 13]
    embeds = tiny.embeds(16)
    rows = torch.cat([positions[0, a] + torch.arange(4) for a in anchors])[None]
    whole = drafter.project_context(features, positions)
    got = drafter.forward_block(embeds, rows, whole, training_mask(anchors, documents, 4))
    for index, anchor in enumerate(anchors):
        first = 8 if anchor >= 8 else 0
        alone = block(drafter, features[:, first:anchor], embeds[:, index * 4 : index * 4 + 4], anchor - first)
        torch.testing.assert_close(got[:, index * 4 : index * 4 + 4], alone)


@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile.*")
def test_flex_attention_equals_the_dense_mask() -> None:
    drafter = tiny.drafter()
    features, positions = tiny.features(12)
    anchors, embeds = torch.tensor([3, 7]), tiny.embeds(8)
    rows = (anchors[:, None] + torch.arange(4)).flatten()[None]

    def sees(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        return torch.where(column < 12, column < anchors[row // 4], (column - 12) // 4 == row // 4)

    whole = drafter.project_context(features, positions)
    mask = create_block_mask(sees, None, None, 8, 20, device="cpu")
    dense = training_mask([3, 7], torch.zeros(12), 4)
    with torch.no_grad():
        got = drafter.forward_block(embeds, rows, whole, mask)
        torch.testing.assert_close(got, drafter.forward_block(embeds, rows, whole, dense))
    mixed = tiny.drafter(tiny.config(layer_types=(SLIDING, FULL), sliding_window=5, is_causal=False))
    whole = mixed.project_context(features, positions)
    with pytest.raises(InvalidDrafter, match="One mask cannot serve"):
        mixed.forward_block(embeds, rows, whole, mask)

    def slides(batch: Tensor, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
        keys = torch.where(column < 12, column, rows[0, (column - 12).clamp(min=0)])
        return sees(batch, head, row, column) & ((rows[0, row] - keys).abs() < 5)

    both = {FULL: mask, SLIDING: create_block_mask(slides, None, None, 8, 20, device="cpu")}
    with torch.no_grad():
        got = mixed.forward_block(embeds, rows, whole, both)
        torch.testing.assert_close(got, mixed.forward_block(embeds, rows, whole, dense))


def test_a_window_hides_what_is_further_back() -> None:
    drafter = tiny.drafter(tiny.config(layer_types=(SLIDING, SLIDING), sliding_window=5, is_causal=False))
    features, _ = tiny.features(12)
    embeds, changed = tiny.embeds(4), features.clone()
    changed[:, :8] += 1.0  # the anchor at 12 sees positions 8 to 11
    torch.testing.assert_close(block(drafter, features, embeds, 12), block(drafter, changed, embeds, 12))
    changed[:, 8] += 1.0
    first = (block(drafter, features, embeds, 12) - block(drafter, changed, embeds, 12)).abs().amax(-1)[0]
    assert first[0] > 1e-4


def test_every_row_of_a_block_sees_the_last() -> None:
    features, _ = tiny.features(6)
    embeds = tiny.embeds(4)
    changed = embeds.clone()
    changed[:, 3] += 1.0
    both = tiny.drafter()
    assert ((block(both, features, embeds, 6) - block(both, features, changed, 6)).abs().amax(-1) > 1e-4).all()
    causal = tiny.drafter(tiny.config(is_causal=True))
    before = block(causal, features, embeds, 6)[:, :3]
    torch.testing.assert_close(before, block(causal, features, changed, 6)[:, :3])


def test_convolutions_stay_in_their_block() -> None:
    drafter = tiny.drafter(tiny.config(**tiny.DFLASH2))
    features, positions = tiny.features(8)
    embeds = tiny.embeds(8)
    changed = embeds.clone()
    changed[:, 3] += 1.0  # the last row of the first block
    mask = training_mask([2, 6], torch.zeros(8), 4)
    rows = torch.cat((torch.arange(2, 6), torch.arange(6, 10)))[None]
    whole = drafter.project_context(features, positions)
    before, after = (drafter.forward_block(e, rows, whole, mask) for e in (embeds, changed))
    torch.testing.assert_close(before[:, 4:], after[:, 4:])
    assert (before[:, :4] - after[:, :4]).abs().max() > 1e-3


def test_a_widened_drafter_starts_equal_and_learns() -> None:
    drafter = tiny.drafter()
    wide = widen(drafter, group=8, rank=4, top_k=8)
    features, _ = tiny.features(9)
    embeds = tiny.embeds(4)
    hidden = block(drafter, features, embeds, 9)
    assert torch.equal(hidden, block(wide, features, embeds, 9))
    logits = torch.randn(1, 3, tiny.VOCABULARY, generator=torch.Generator().manual_seed(5))
    selector = wide.candidate_selector
    assert selector is not None
    assert torch.equal(selector.walk(hidden[:, 1:], logits, torch.tensor([7])).tokens, logits.argmax(-1))
    candidates, scores = selector.scores(hidden[:, 1:], logits, torch.tensor([[7, 8, 9]]))
    (scores.sum() + block(wide, features, embeds, 9).square().sum()).backward()
    moved = {name for name, weight in wide.named_parameters() if weight.grad is not None and weight.grad.any()}
    assert {"candidate_selector.hidden_projection.weight", "layers.0.attention_conv.base_kernel"} <= moved
    assert "layers.1.mlp_conv.kernel_projection.weight" in moved
    assert torch.equal(scores, logits.gather(-1, candidates))
    with pytest.raises(InvalidDrafter, match="a DFlash 2 already"):
        widen(wide)


def test_the_context_is_projected_in_one_place_and_never_stale() -> None:
    drafter = tiny.drafter()
    features, positions = tiny.features(7)
    by_cat = drafter.project_context(features, positions)
    with torch.inference_mode():
        together = drafter.project_context(features, positions)
    torch.testing.assert_close(together.keys, by_cat.keys)
    weights = [part.weight for layer in drafter.attentions() for part in (layer.k_proj, layer.v_proj)]
    step = weights[0].numel() * 4
    assert [w.data_ptr() - weights[0].data_ptr() for w in weights] == [step * i for i in range(4)]
    copied = copy.deepcopy(drafter)
    with torch.no_grad():
        weights[3].add_(1.0)
        changed = drafter.project_context(features, positions)
        assert (changed.values[1] - together.values[1]).abs().max() > 0.1
        torch.testing.assert_close(copied.project_context(features, positions).values, by_cat.values)
    drafter.project_context(features, positions).values.sum().backward()
    assert weights[3].grad is not None and weights[3].grad.abs().sum() > 0


@torch.inference_mode()
def test_a_drafter_made_in_inference_mode_works() -> None:
    drafter = tiny.drafter()
    features, positions = tiny.features(7)
    context = drafter.project_context(features, positions)
    assert torch.equal(context.keys, drafter.project_context(features, positions).keys)
    assert drafter.forward_block(tiny.embeds(4), torch.arange(7, 11)[None], context).isfinite().all()


def test_gradient_checkpointing_changes_no_gradient() -> None:
    features, _ = tiny.features(7)
    gradients = []
    for on in (False, True):
        drafter = tiny.drafter(tiny.config(**tiny.DFLASH2))
        drafter.gradient_checkpointing = on
        block(drafter, features, tiny.embeds(4), 7).square().sum().backward()
        gradients.append([p.grad for n, p in drafter.named_parameters() if "selector" not in n])
    for plain, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, recomputed)


def test_the_embedding_scale_and_the_shape_of_logits_are_the_configs() -> None:
    plain = tiny.drafter()
    scaled = tiny.drafter(tiny.config(input_embedding_scale=2.0, output_multiplier=0.5, final_logit_softcapping=3.0))
    features, _ = tiny.features(7)
    embeds = tiny.embeds(4)
    torch.testing.assert_close(block(scaled, features, embeds, 7), block(plain, features, 2 * embeds, 7))
    logits = torch.tensor([1.0, -20.0])
    torch.testing.assert_close(scaled.shape_logits(logits), torch.tanh(logits / 6) * 3)
    assert torch.equal(plain.shape_logits(logits), logits)


def test_rows_that_are_no_blocks_are_refused() -> None:
    drafter = tiny.drafter()
    features, positions = tiny.features(7)
    context = drafter.project_context(features, positions)
    with pytest.raises(ValueError, match="6 rows are no blocks of 4"):
        drafter.forward_block(tiny.embeds(6), torch.arange(7, 13)[None], context)
    assert drafter.forward_block(tiny.embeds(3), torch.arange(7, 10)[None], context).shape == (1, 3, tiny.HIDDEN)


def test_bf16_with_autocast_keeps_fp32_masters() -> None:
    drafter = tiny.drafter(tiny.config(**tiny.DFLASH2))
    features, _ = tiny.features(9)
    embeds = tiny.embeds(4)
    exact = block(drafter, features, embeds, 9)
    with torch.autocast("cpu", torch.bfloat16):
        rough = block(drafter, features.bfloat16(), embeds, 9)
    assert (rough - exact).abs().mean() < 0.1
    rough.float().square().sum().backward()
    assert all(p.grad is None or p.grad.dtype == torch.float32 for p in drafter.parameters())
