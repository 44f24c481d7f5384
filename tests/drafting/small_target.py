"""A target small enough to train drafters for in seconds, with a tokenizer that has a chat template."""

from __future__ import annotations

from typing import Any

import torch

from outrider.drafting.dataset import Dataset, Row, Split
from outrider.drafting.target import Target

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|im_start|>", "<|im_end|>", "<mask>"]
DIGEST = "d" * 64


def tokenizer() -> Any:
    """Bytes and three special tokens: 259 words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {word: number for number, word in enumerate([*SPECIAL, *letters])}
    plain = Tokenizer(models.BPE(vocab=words, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    plain.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|im_end|>", additional_special_tokens=SPECIAL)
    made.chat_template = TEMPLATE
    return made


def target(layers: int = 4, seed: int = 0) -> Target:
    """A random Llama of ``layers`` layers, width 32, in fp32."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=259,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        eos_token_id=1,
        bos_token_id=None,
        pad_token_id=1,
    )
    return Target(LlamaForCausalLM(config).float(), tuple(range(3)), tokenizer())


def dataset(number: int = 12, *, length: int = 40, seed: int = 0) -> Dataset:
    """Rows of a text that repeats itself, so that a drafter can learn it; a quarter is held out."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for index in range(number):
        motif = torch.randint(3, 259, (5,), generator=generator).tolist()
        tokens = (motif * length)[:length]
        split: Split = "held_out" if index % 4 == 3 else "train"
        rows.append(Row(f"row-{index}", "chat", split, None, tokens, [(6, length)]))
    return Dataset(
        rows, {"target": {"name": "tiny", "digest": DIGEST}, "sha256": "s" * 64, "rows": {}, "answer_tokens": {}}
    )
