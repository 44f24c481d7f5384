"""The header of a GGUF file, read without any dependency: metadata and the shapes of the tensors, never their data.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian. A file may be
hostile: every count is checked against what the file can hold before anything is allocated for it.
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.errors import WeightsUnreadable

MAX_STRING = 16 * 1024 * 1024
"""Bytes of one string (16 MiB: the largest chat templates are some hundred KiB)."""
MAX_ITEMS = 8_000_000
"""Items of one array (8 M: vocabularies end below 300,000, merges below 1,000,000)."""
MAX_ENTRIES = 1_000_000
"""Metadata keys, or tensors (the largest models have some ten thousand)."""
_MAX_DIMENSIONS = 8

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

# ggml_type: name, weights in a block, bytes of a block (ggml.h and ggml-common.h).
_TENSOR_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip

# llama_ftype: how the file as a whole was quantised (llama.h).
_FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS",
    21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S",
    29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: its name, its shape, its ggml type, and the offset of its data within the data section."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int

    @property
    def elements(self) -> int:
        """Number of weights."""
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the data.

    Attributes:
        version: 2 or 3.
        metadata: scalars and strings as they are; an array of strings as the number of its items.
        tensors: every tensor of this file.
        bytes: size of the file.
    """

    version: int
    metadata: dict[str, Any]
    tensors: tuple[Tensor, ...]
    bytes: int

    def quantisation(self) -> str | None:
        """The file's type, or that of most of its weights; None where neither is known here."""
        name = _FILE_TYPES.get(self.metadata.get("general.file_type", -1))
        if name is not None or not self.tensors:
            return name
        weights: Counter[int] = Counter()
        for tensor in self.tensors:
            weights[tensor.type] += tensor.elements
        return _TENSOR_TYPES.get(weights.most_common(1)[0][0], (None, 0, 0))[0]


def read_header(path: Path) -> Header:
    """Read the header of a GGUF file.

    Raises:
        WeightsUnreadable: not GGUF, an unknown version, big-endian, damaged, or shorter than its tensors.
    """
    try:
        if not path.is_file():
            why = "it is no file" if path.exists() else "there is no such file"
            raise WeightsUnreadable(f"Cannot read {path}", why=why, remedy="Check the path.")
        with path.open("rb") as file:
            size = path.stat().st_size
            if size < 24:
                raise _unreadable(path, f"{size} bytes are too few for a header")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                return _Reader(path, view, size).header()
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error


def _unreadable(path: Path, why: str) -> WeightsUnreadable:
    return WeightsUnreadable(f"Cannot read {path.name} as GGUF", why=why, remedy="Fetch the file again.")


class _Reader:
    """A cursor over the mapped file that refuses to leave it."""

    def __init__(self, path: Path, view: mmap.mmap, size: int) -> None:
        self._path = path
        self._view = view
        self._size = size
        self._at = 0

    def header(self) -> Header:
        if self._take(4) != b"GGUF":
            raise _unreadable(self._path, "it does not start with GGUF")
        version = int(self._scalar("<I"))
        if version not in (2, 3):
            big = version & 0xFFFF == 0 and version != 0
            raise _unreadable(self._path, "it is big-endian" if big else f"its version {version} is neither 2 nor 3")
        tensors = self._count("tensors", 24)
        keys = self._count("metadata keys", 13)
        metadata = {self._string(): self._value(int(self._scalar("<I"))) for _ in range(keys)}
        header = Header(version, metadata, tuple(self._tensor() for _ in range(tensors)), self._size)
        self._refuse_truncated(header)
        return header

    def _refuse_truncated(self, header: Header) -> None:
        alignment = header.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20:
            raise _unreadable(self._path, f"its alignment is {alignment!r}")
        start = -(-self._at // alignment) * alignment
        for tensor in header.tensors:
            _, block, bytes_per_block = _TENSOR_TYPES.get(tensor.type, ("", 1, 0))
            end = start + tensor.offset + -(-tensor.elements // block) * bytes_per_block
            if end > self._size:
                raise _unreadable(
                    self._path, f"it is truncated: {tensor.name!r} ends at byte {end:,}, the file at {self._size:,}"
                )

    def _tensor(self) -> Tensor:
        name = self._string()
        dimensions = int(self._scalar("<I"))
        if dimensions > _MAX_DIMENSIONS:
            raise _unreadable(self._path, f"a tensor of {dimensions} dimensions")
        shape = tuple(int(self._scalar("<Q")) for _ in range(dimensions))
        return Tensor(name, shape, int(self._scalar("<I")), int(self._scalar("<Q")))

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        return self._scalar(self._format(kind))

    def _array(self) -> Any:
        kind = int(self._scalar("<I"))
        if kind == _STRING:
            count = self._count("array items", 8, MAX_ITEMS)
            for _ in range(count):
                self._take(self._length(), keep=False)
            return count
        if kind == _ARRAY:
            raise _unreadable(self._path, "it nests arrays, which no known writer does")
        layout = self._format(kind)
        width = struct.calcsize(layout)
        count = self._count("array items", width, MAX_ITEMS)
        return [item for (item,) in struct.iter_unpack(layout, self._take(count * width))]

    def _format(self, kind: int) -> str:
        layout = _SCALARS.get(kind)
        if layout is None:
            raise _unreadable(self._path, f"unknown value type {kind} at byte {self._at:,}")
        return layout

    def _scalar(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _string(self) -> str:
        return self._take(self._length()).decode("utf-8", "replace")

    def _length(self) -> int:
        length = int(self._scalar("<Q"))
        if length > MAX_STRING:
            raise _unreadable(self._path, f"a string of {length:,} bytes at byte {self._at:,}")
        return length

    def _count(self, what: str, least: int, limit: int = MAX_ENTRIES) -> int:
        count = int(self._scalar("<Q"))
        if count > limit or count * least > self._size - self._at:
            raise _unreadable(self._path, f"{count:,} {what} cannot be in it")
        return count

    def _take(self, length: int, *, keep: bool = True) -> bytes:
        end = self._at + length
        if end > self._size:
            raise _unreadable(self._path, f"it is truncated: the header goes on after its end at byte {self._size:,}")
        taken = self._view[self._at : end] if keep else b""
        self._at = end
        return taken
