"""The target: taps, embedding, head and cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.drafting.target import Target
from outrider.errors import InvalidDrafter, WeightsUnavailable

from . import tiny

#: Its random weights are large: sums of thousands, in another order.
CLOSE: Any = {"atol": 1e-3, "rtol": 1e-4}
IDS = torch.tensor([[3, 9, 27, 1, 40], [5, 5, 6, 7, 8]])


def test_features_are_the_states_after_the_tapped_layers() -> None:
    target = tiny.target()
    model: Any = target.model
    with torch.no_grad():
        states = model(IDS, output_hidden_states=True).hidden_states
    expected = torch.cat([states[index + 1] for index in tiny.TAPS], dim=-1)
    hooks = [len(layer._forward_hooks) for layer in model.model.layers]
    output = target.forward(IDS)
    torch.testing.assert_close(output.features, expected, **CLOSE)
    found = target.states(IDS)
    torch.testing.assert_close(found.features, expected, **CLOSE)
    torch.testing.assert_close(target.shape_logits(target.logits(found.final)), output.logits, **CLOSE)
    assert [len(layer._forward_hooks) for layer in model.model.layers] == hooks
    assert not any(weight.requires_grad for weight in model.parameters())


def test_a_cropped_cache_is_as_if_nothing_had_come_after() -> None:
    target = tiny.target()
    cache = target.cache()
    first = target.forward(IDS[:1, :3], cache)
    target.forward(torch.tensor([[60, 61, 62]]), cache)
    target.crop(cache, 3)
    rest = target.forward(IDS[:1, 3:], cache)
    whole = target.forward(IDS[:1])
    torch.testing.assert_close(torch.cat((first.logits, rest.logits), 1), whole.logits, **CLOSE)
    torch.testing.assert_close(torch.cat((first.features, rest.features), 1), whole.features, **CLOSE)
    assert target.forward(IDS[:1], last=True).logits.shape[1] == 1


def test_gradients_pass_through_the_head() -> None:
    target = tiny.target()
    hidden = torch.randn(1, 2, tiny.HIDDEN, requires_grad=True)
    target.logits(hidden).square().sum().backward()
    assert hidden.grad is not None and hidden.grad.abs().sum() > 0


def test_layers_that_it_lacks_are_refused() -> None:
    for taps in ((1, tiny.LAYERS), (3, 1), (-1,)):
        with pytest.raises(InvalidDrafter, match="no such layers"):
            tiny.target(taps=taps)
    assert tiny.target(taps=()).forward(IDS).features.shape == (2, 5, 0)


def test_a_scaled_embedding_is_told_and_not_applied() -> None:
    import transformers

    torch.manual_seed(0)
    config: Any = transformers.Gemma3TextConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, pad_token_id=None, eos_token_id=None, bos_token_id=None,
        final_logit_softcapping=5.0, sliding_window=3,
    )  # fmt: skip
    target = Target(transformers.Gemma3ForCausalLM(config), (0,))
    model: Any = target.model
    assert target.input_embedding_scale == pytest.approx(32**0.5, rel=1e-2)
    embedded = model.get_input_embeddings()(IDS)
    torch.testing.assert_close(target.embed(IDS) * target.input_embedding_scale, embedded, atol=1e-3, rtol=1e-2)
    final = target.states(IDS).final
    torch.testing.assert_close(target.shape_logits(target.logits(final)), target.forward(IDS).logits)
    cache = target.cache()  # beyond the window of its sliding layers
    target.forward(IDS[:1, :4], cache)
    target.forward(torch.tensor([[60, 61]]), cache)
    target.crop(cache, 4)
    torch.testing.assert_close(target.forward(IDS[:1, 4:], cache).logits, target.forward(IDS[:1]).logits[:, 4:])


def test_a_target_is_loaded_from_a_directory(tmp_path: Path) -> None:
    import tokenizers
    import transformers

    saved: Any = tiny.target("llama").model
    saved.save_pretrained(tmp_path)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path)
    target = Target.load(tmp_path, (2,), dtype=torch.float32)
    torch.testing.assert_close(target.forward(IDS).logits, tiny.target("llama").forward(IDS).logits)
    assert target.tokenizer.decode([1]) == "b"
    assert target.eos == frozenset()
    loaded: Any = target.model
    loaded.generation_config.eos_token_id = [7, 9]
    target.tokenizer.eos_token = "b"
    assert target.eos == {7, 9, 1}
    assert (target.vocab_size, target.hidden_size, target.num_layers, target.layer_ids) == (64, 32, 6, (2,))
    with pytest.raises(WeightsUnavailable, match="No target can be loaded from"):
        Target.load(tmp_path / "nothing")
