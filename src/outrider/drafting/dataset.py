"""The data a drafter is trained and measured on: what the target said, row by row, with a manifest beside it.

``rows.jsonl`` holds one conversation a line: ``{"id", "slice", "split", "template", "tokens", "answers"}``.
``answers`` are ``[start, end)`` spans of ``tokens`` that the target wrote, its end-of-turn token included unless it
was cut short. ``manifest.json`` says which target (digest of its weights), which samplers, how many of what, and the
digest of the rows.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import InvalidDataset

Split = Literal["train", "held_out"]
ROWS, MANIFEST = "rows.jsonl", "manifest.json"


@dataclass(frozen=True)
class Row:
    """One conversation.

    Attributes:
        id: unique in its data.
        slice: what kind of traffic it stands for: ``chat``, ``code``, ``json``, …
        split: ``train``, or ``held_out`` for measuring alone.
        template: the template it was filled from, else None.
        tokens: the whole text.
        answers: ``[start, end)`` spans that the target wrote.
    """

    id: str
    slice: str
    split: Split
    template: str | None
    tokens: list[int]
    answers: list[tuple[int, int]]

    @property
    def supervised(self) -> int:
        """Tokens that the target wrote."""
        return sum(end - start for start, end in self.answers)

    @property
    def prompt(self) -> tuple[int, ...]:
        """What the last answer answers; the whole text where there is none."""
        return tuple(self.tokens[: self.answers[-1][0]] if self.answers else self.tokens)

    def digest(self) -> str:
        """Of what is asked: two rows that differ only in the answer to the last turn are duplicates."""
        return hashlib.sha256(json.dumps(self.prompt).encode()).hexdigest()


@dataclass(frozen=True)
class Dataset:
    """Rows, and what is known about them."""

    rows: list[Row]
    manifest: dict[str, Any]

    def split(self, split: Split, slice: str | None = None) -> list[Row]:
        """The rows of one split, or of one slice of it."""
        return [row for row in self.rows if row.split == split and slice in (None, row.slice)]


def unique(rows: Iterable[Row], seen: set[str]) -> Iterator[Row]:
    """Rows with an answer whose prompt was not met before; ``seen`` grows."""
    for row in rows:
        if row.supervised > 1 and (digest := row.digest()) not in seen:
            seen.add(digest)
            yield row


def write(directory: Path, rows: Iterable[Row], about: Mapping[str, Any]) -> dict[str, Any]:
    """Write rows and manifest; the manifest. ``about`` is what the rows do not say: target, samplers, seed."""
    hasher, tokens, answers, numbers = hashlib.sha256(), Counter[str](), Counter[str](), Counter[str]()
    templates: dict[str, set[str]] = {"train": set(), "held_out": set()}
    part = directory / f"{ROWS}.part"
    found = iter(rows)
    first = next(found, None)  # whatever is wrong with who writes shows here, before anything is on disk
    directory.mkdir(parents=True, exist_ok=True)
    with part.open("wb") as file:
        for row in itertools.chain(() if first is None else (first,), found):
            line = json.dumps(asdict(row), separators=(",", ":")).encode() + b"\n"
            file.write(line)
            hasher.update(line)
            key = f"{row.split}/{row.slice}"
            numbers[key] += 1
            tokens[key] += len(row.tokens)
            answers[key] += row.supervised
            if row.template:
                templates[row.split].add(row.template)
    part.replace(directory / ROWS)
    manifest = {
        **about,
        "rows": dict(numbers),
        "tokens": dict(tokens),
        "answer_tokens": dict(answers),
        "templates": {split: sorted(names) for split, names in templates.items()},
        "sha256": hasher.hexdigest(),
    }
    text = json.dumps(manifest, indent=2)
    (directory / MANIFEST).write_text(text + "\n")
    written: dict[str, Any] = json.loads(text)
    return written


def read(directory: Path) -> Dataset:
    """Read rows and manifest.

    Raises:
        InvalidDataset: a file is missing, or a line is no row; the line is named.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        lines = (directory / ROWS).read_bytes().splitlines()
    except OSError as error:
        raise InvalidDataset(f"No data can be read in {directory}", why=error.strerror) from None
    except ValueError:
        raise InvalidDataset(f"No data can be read in {directory}", why=f"{MANIFEST} is no JSON") from None
    return Dataset([_row(line, number) for number, line in enumerate(lines, 1)], manifest)


def _row(line: bytes, number: int) -> Row:
    try:
        values = json.loads(line)
        values["answers"] = [(int(start), int(end)) for start, end in values["answers"]]
        return Row(**values)
    except (ValueError, TypeError, KeyError):
        fields = "an object with id, slice, split, template, tokens and answers"
        raise InvalidDataset(f"Line {number} of {ROWS} is no row", why=f"each line is {fields}") from None


def check(dataset: Dataset, *, vocabulary: int, target: str, mask_token: int) -> None:
    """Refuse data that would train a drafter on something else than it will meet.

    Args:
        dataset: the data.
        vocabulary: rows of the target's embedding.
        target: digest of the target's weights.
        mask_token: the token that stands for "not known yet"; no text may use it.

    Raises:
        InvalidDataset: the first row that is wrong, by its line and id, or the target that wrote it.
    """
    wrote = dataset.manifest.get("target", {}).get("digest")
    if wrote != target:
        raise InvalidDataset(
            "Another target wrote this data",
            why=f"its manifest names {str(wrote)[:12]}…, the target's digest is {target[:12]}…",
            remedy="Make the data with this target: outrider drafter data",
        )
    if not any(row.split == "train" for row in dataset.rows):
        raise InvalidDataset("The data has no rows to train on")
    for number, row in enumerate(dataset.rows, 1):
        if wrong := _wrong(row, vocabulary, mask_token):
            raise InvalidDataset(f"Line {number} of {ROWS} ({row.id}) cannot be used", why=wrong)


def _wrong(row: Row, vocabulary: int, mask_token: int) -> str | None:
    if row.split not in ("train", "held_out"):
        return f"its split is {row.split!r}"
    if row.supervised < 2:
        return "its loss mask is empty: no answer of two tokens"
    if any(not 0 < start < end <= len(row.tokens) for start, end in row.answers):
        return "an answer lies outside of its tokens, or starts them"
    if not 0 <= min(row.tokens) <= max(row.tokens) < vocabulary:
        return f"token {max(row.tokens)} is none of the target's {vocabulary}"
    if mask_token in row.tokens:
        return f"it uses the mask token {mask_token}"
    return None
