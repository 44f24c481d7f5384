"""What llama.cpp is told of a drafter: its ``speculative`` parameters, by xllamacpp's names.

Source: llama.cpp ``common/common.h`` (``common_params_speculative``), as in xllamacpp 2026.10.11549.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.engines.speculation import LONGEST, Speculation
from outrider.errors import DrafterUnfit, InvalidInput

_TYPES = {
    "off": "NONE",
    "dflash": "DRAFT_DFLASH",
    "eagle3": "DRAFT_EAGLE3",
    "mtp": "DRAFT_MTP",
    "ngram": "NGRAM_SIMPLE",
    "draft": "DRAFT_SIMPLE",
}
"""Method → ``common_speculative_type``; DFlash 2 is a ``DRAFT_DFLASH`` whose file has a selector."""


def parameters(chosen: Speculation, threads: int, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a drafter, without the path of its file; none where nothing speculates.

    Args:
        threads: that decode; the drafter takes as many.
        extra: the engine's further parameters.

    Raises:
        InvalidInput: ``extra`` names speculation, too.
    """
    if chosen.method == "off":
        return {}
    if "speculative.types" in extra:
        raise InvalidInput(
            "LlamaCpp(speculation=…) and extra['speculative.types']",
            why="both say how it speculates",
            remedy="Leave one of them out.",
        )
    member = f"COMMON_SPECULATIVE_TYPE_{_TYPES[chosen.method]}"
    told: dict[str, Any] = {"speculative.types": {"enum": "common_speculative_type", "members": [member], "list": True}}
    if chosen.method == "ngram":
        return told | {"speculative.ngram_simple.size_n": LONGEST, "speculative.ngram_simple.size_m": chosen.tokens}
    return told | {
        "speculative.draft.n_max": chosen.tokens,
        "speculative.draft.cpuparams.n_threads": threads,
        "speculative.draft.cpuparams_batch.n_threads": threads,
    }


def drafter_file(path: Path) -> Path:
    """The drafter's file as it came. Raises DrafterUnfit unless it is a GGUF file."""
    if path.is_file():
        with path.open("rb") as file:
            if file.read(4) == b"GGUF":
                return path
    raise DrafterUnfit(
        f"llama.cpp cannot load the drafter {path.name}",
        why="it reads drafters from one GGUF file",
        remedy=f"Convert it with: outrider drafter export {path} --format gguf --target TARGET.gguf --output FILE.gguf",
    )
