"""Writes ``zlab.safetensors``: what z-lab's own DFlash and DFlash 2 give for random weights.

Usage: ``python tests/drafting/golden/zlab.py`` in an environment with torch, transformers, safetensors and
``pip install --no-deps dflash==0.1.0``. The test beside it compares with the file, so that it needs none of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

#: Everything that is not the usual of the case before.
CASES: dict[str, dict[str, Any]] = {
    "full": {},
    "sliding": {"layer_types": ["sliding_attention"] * 2, "sliding_window": 5, "is_causal": False},
    "mixed": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 5},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}},
    "dflash2": {
        "layer_types": ["sliding_attention"] * 2,
        "sliding_window": 5,
        "is_causal": False,
        "dflash_config": {"conv_kernel_size": 2, "conv_group_size": 4, "selector_rank": 4, "selector_top_k": 6},
    },
}
LENGTHS = (9, 2, 4)  # context rows of three steps


def document(case: str) -> dict[str, Any]:
    """The ``config.json`` of a case."""
    base: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_target_layers": 5,
        "vocab_size": 32,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 64,
        "rope_parameters": {"rope_type": "default"},
        "block_size": 4,
        "dflash_config": {},
    }
    changes = CASES[case]
    made = base | changes | {"use_sliding_window": "sliding_window" in changes}
    made["rope_parameters"] = {"rope_theta": 10000.0, **made["rope_parameters"]}
    made["dflash_config"] = {"mask_token_id": 31, "target_layer_ids": [1, 3], **made["dflash_config"]}
    return made


def main() -> None:
    """Write the file."""
    from dflash.model import DFlash2DraftModel, DFlashDraftModel, dflash_generate  # type: ignore[import-not-found]
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    common = {k: v for k, v in document("full").items() if k not in ("dflash_config", "block_size")}
    shape = common | {"num_hidden_layers": 5, "tie_word_embeddings": True, "initializer_range": 0.5}
    target = Qwen3ForCausalLM(Qwen3Config(**shape)).eval()
    found: dict[str, torch.Tensor] = {f"target.{name}": value for name, value in target.state_dict().items()}
    for case in CASES:
        kind = DFlash2DraftModel if case == "dflash2" else DFlashDraftModel
        config = Qwen3Config(**document(case))
        config._attn_implementation = "sdpa"
        drafter = kind(config).eval()
        with torch.no_grad():
            for name, weight in drafter.named_parameters():
                weight.normal_(std=0.4)
                if "norm" in name or "base_kernel" in name:
                    weight.add_(1.0)
        for name, value in drafter.state_dict().items():
            found[f"{case}.weights.{name.replace('codebook.weight', 'codebook')}"] = value
        prompt = torch.randint(31, (1, 7))
        answer = dflash_generate(drafter, target, prompt, 24, None, return_stats=False)
        found |= {f"{case}.prompt": prompt, f"{case}.answer": answer[:, 7:]} | steps(case, drafter)
    kept = {name: value.detach().clone().contiguous() for name, value in found.items()}
    save_file(kept, Path(__file__).with_name("zlab.safetensors"), metadata={"documents": json.dumps(list(CASES))})


@torch.no_grad()
def steps(case: str, drafter: Any) -> dict[str, torch.Tensor]:
    """Three steps with the package's own cache: features, embeddings, and the block's hidden states."""
    from dflash.model import _crop_to, _make_cache

    found: dict[str, torch.Tensor] = {}
    cache, start = _make_cache(drafter.config), 0
    for step, length in enumerate(LENGTHS):
        features, embeds = torch.randn(1, length, 32), torch.randn(1, 4, 16)
        hidden = drafter(
            position_ids=torch.arange(start, start + length + 4)[None],
            noise_embedding=embeds,
            target_hidden=features,
            past_key_values=cache,
            use_cache=True,
        )
        start += length
        _crop_to(cache, start)
        found |= {f"{case}.{step}.features": features, f"{case}.{step}.embeds": embeds, f"{case}.{step}.hidden": hidden}
        if case == "dflash2":
            anchor, head = torch.tensor([3 + step]), torch.nn.Linear(16, 32, bias=False)
            logits = drafter.compute_logits(hidden[:, 1:], head)
            path = drafter.candidate_selector.select(hidden[:, 1:], logits, anchor, 0.0)[0]
            found |= {f"{case}.{step}.logits": logits, f"{case}.{step}.anchor": anchor, f"{case}.{step}.path": path}
    return found


if __name__ == "__main__":
    main()
