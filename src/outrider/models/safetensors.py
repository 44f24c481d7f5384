"""The header of a safetensors file, read by hand: names, types and shapes of the tensors, never their data.

Format: 8 bytes with the header's length (little-endian), then JSON, then the data
(https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.errors import WeightsUnreadable

MAX_JSON = 64 * 1024 * 1024
"""Bytes of a JSON file or safetensors header that are read (64 MiB; safetensors itself stops at 100 MB)."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor.

    Attributes:
        dtype: as the file names it: ``BF16``, ``F32``, ``I8``, ….
        shape: outermost dimension first.
    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of its numbers."""
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, by name.

    Raises:
        WeightsUnreadable: no such file, no safetensors, a broken header, or shorter than its tensors.
    """
    try:
        with path.open("rb") as file:
            head, size = file.read(8), path.stat().st_size
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else -1
            if not 2 <= length <= min(MAX_JSON, size - 8):
                raise WeightsUnreadable(f"{_shown(path)} is no whole safetensors file", remedy="Fetch it again.")
            text = file.read(length)
    except OSError as error:
        raise WeightsUnreadable(f"Cannot read {_shown(path)}", why=error.strerror, remedy="Check the path.") from error
    try:
        entries = {name: entry for name, entry in json.loads(text).items() if name != "__metadata__"}
        ends = [int(entry["data_offsets"][1]) for entry in entries.values()]
        found = {name: _tensor(entry) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise WeightsUnreadable(
            f"{_shown(path)} has a broken header", why=str(error), remedy="Fetch it again."
        ) from error
    if (whole := 8 + length + max(ends, default=0)) > size:
        why = f"it has {size:,} bytes, its header tells of {whole:,}"
        raise WeightsUnreadable(f"{_shown(path)} is truncated", why=why, remedy="Fetch it again.")
    return found


def read_all(paths: Iterable[Path]) -> dict[str, Tensor]:
    """The tensors of several files together. Raises WeightsUnreadable."""
    return {name: tensor for path in paths for name, tensor in read_tensors(path).items()}


def read_object(path: Path, remedy: str = "Fetch it again.") -> dict[str, Any]:
    """The JSON object that a file beside the weights holds (``config.json``, ``tokenizer_config.json``, …).

    Args:
        remedy: what to do where there is no such file.

    Raises:
        WeightsUnreadable: no such file, too large, or no JSON object.
    """
    try:
        if path.stat().st_size > MAX_JSON:
            raise WeightsUnreadable(f"{_shown(path)} is too large", why=f"more than {MAX_JSON:,} bytes")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise WeightsUnreadable(f"Cannot read {_shown(path)}", why=error.strerror, remedy=remedy) from error
    except (ValueError, RecursionError) as error:
        raise WeightsUnreadable(f"{_shown(path)} is no JSON", why=str(error), remedy="Fetch it again.") from error
    if not isinstance(content, dict):
        raise WeightsUnreadable(f"{_shown(path)} is no JSON object", remedy="Fetch it again.")
    return content


def _shown(path: Path) -> str:
    """With the directory: a model, its drafter and its adapters have files of the same names."""
    return f"{path.parent.name}/{path.name}" if path.parent.name else path.name


def _tensor(entry: Any) -> Tensor:
    shape = tuple(int(dimension) for dimension in entry["shape"])
    if any(dimension < 0 for dimension in shape):
        raise ValueError(f"a shape of {list(shape)}")
    return Tensor(str(entry.get("dtype", "")), shape)
