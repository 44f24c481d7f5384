"""The shipped drafter on prompts that its target did not write: the tuner's two kinds of traffic, by the reference.

    python -m benchmarks.drafter.other_prompts --target DIRECTORY

Held-out prompts of the drafter's own data come from the same sources as those it was trained on. These do not:
questions with topics filled in, and JSON to be said again. Answers are the target's, greedy. Writes
``results/other_prompts.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import torch
from benchmarks.tuning import workloads

from outrider._version import __version__
from outrider.drafting import checkpoint
from outrider.drafting.evaluation import Record, measure
from outrider.drafting.reference import generate
from outrider.drafting.target import Target
from outrider.models.sources import SHIPPED_DRAFTERS

RESULT = Path(__file__).with_name("results") / "other_prompts.json"
SHIPPED = SHIPPED_DRAFTERS / "smollm2-135m-instruct-dflash"


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", type=Path, required=True, help="the model in Hugging Face's layout, bf16")
    parser.add_argument("--prompts", type=int, default=48, help="of each kind")
    parser.add_argument("--limit", type=int, default=96, help="tokens of an answer")
    options = parser.parse_args()
    torch.set_num_threads(1)
    target = Target.load(options.target, dtype=torch.bfloat16)
    drafter = checkpoint.load(SHIPPED, dtype=torch.bfloat16)
    target.tap(drafter.config.target_layer_ids)
    found = measure(drafter, target, list(_records(target, options.prompts, options.limit)), batch_size=8)
    print(found.table())
    about = {
        "machine": {"cores": psutil.cpu_count(), "load_average": round(psutil.getloadavg()[0], 2)},
        "versions": {"outrider": __version__, "torch": torch.__version__},
        "limit": options.limit,
    }
    RESULT.write_text(json.dumps(about | found.emit(), indent=1) + "\n", encoding="utf-8")


def _records(target: Target, number: int, limit: int) -> Iterator[Record]:
    tokenizer, eos = target.tokenizer, target.model.generation_config.eos_token_id
    for kind, texts in workloads.texts(number).items():
        for text in texts:
            turn = [{"role": "user", "content": text}]
            asked = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
            prompt = tuple(tokenizer.encode(asked, add_special_tokens=False))
            answer = generate(target, prompt, max_tokens=limit, eos=[eos] if isinstance(eos, int) else eos)
            yield Record(prompt, tuple(answer.tokens), kind)


if __name__ == "__main__":
    main()
