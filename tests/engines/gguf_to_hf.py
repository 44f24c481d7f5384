"""A GGUF file of the llama architecture as a directory for vLLM: bf16 weights, tokenizer and config.

Usage: ``python gguf_to_hf.py FILE.gguf DIRECTORY``, in a Python with torch, transformers and gguf. The weights are the
dequantised ones: the same function as the GGUF, up to the rounding of bf16.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(source: Path, target: Path) -> None:
    """Convert; the directory appears whole or not at all."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    import transformers  # type: ignore[import-not-found,unused-ignore]

    where, name = str(source.parent), source.name
    loaded = transformers.AutoModelForCausalLM.from_pretrained(where, gguf_file=name, dtype=torch.float32)
    described = loaded.config.to_dict()
    described.pop("quantization_config", None)  # a model that says it is quantised cannot be saved
    config = type(loaded.config)(**described)
    model: Any = type(loaded)(config)
    model.load_state_dict(loaded.state_dict(), strict=True)
    model.tie_weights()
    tokenizer = transformers.AutoTokenizer.from_pretrained(where, gguf_file=name)
    partial = target.with_name(f"{target.name}.partial")
    torch.nn.Module.to(model, torch.bfloat16)  # in place
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    # What the GGUF says and the conversion loses.
    _set(partial / "generation_config.json", eos_token_id=2)
    _set(partial / "tokenizer_config.json", model_max_length=8192)
    partial.rename(target)


def _set(file: Path, **values: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
