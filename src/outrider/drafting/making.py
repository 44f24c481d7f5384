"""``drafter data``, from settings to rows: which scripts, in which order, who answers, what is kept."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from . import dataset, generation, prompts, templates
from .chat_format import ChatFormat
from .generation import Writer
from .slots import Sampler, Script


@dataclass(frozen=True)
class DataSettings:
    """What data is made of.

    Attributes:
        chats: conversations that the target makes up.
        self_prompting: how.
        prompts: JSONL files of conversations.
        templates: YAML files of templates.
        per_template: fillings of each template that is trained on; held-out ones get ``held_out_per_template``.
        held_out_per_template: fillings of each held-out template.
        templates_kept: so many templates of each file, drawn by the seed; 0 for all.
        answer: how answers are drawn: as in serving; greedy by default.
        limit: longest answer, in tokens.
        minutes: start no further conversation after so long; 0 for no limit. What is made then depends on the machine.
        seed: of everything drawn.
    """

    chats: int = 1000
    self_prompting: prompts.SelfPrompting = field(default_factory=prompts.SelfPrompting)
    prompts: tuple[Path, ...] = ()
    templates: tuple[Path, ...] = ()
    per_template: int = 0
    held_out_per_template: int = 20
    templates_kept: int = 0
    answer: Sampler = field(default_factory=Sampler)
    limit: int = 384
    minutes: float = 0.0
    seed: int = 0


Report = Callable[[int, int, int], None]
"""Hears conversations kept, conversations in all, and tokens read or written so far."""


def scripts(form: ChatFormat, settings: DataSettings) -> list[Script]:
    """Every script, in an order drawn by the seed: whatever stops the work early leaves the same mixture.

    Raises:
        InvalidDataset: a file of prompts or templates is wrong.
    """
    chats = prompts.self_prompted(form, settings.self_prompting, settings.answer, settings.limit, settings.seed)
    found = list(itertools.islice(chats, settings.chats))
    for path in settings.prompts:
        found += prompts.from_file(path, form, settings.answer, settings.limit)
    for path in settings.templates:
        found += _filled(form, templates.read(path), settings)
    Random(settings.seed).shuffle(found)
    return found


def _filled(form: ChatFormat, found: list[templates.Template], settings: DataSettings) -> Iterator[Script]:
    if settings.templates_kept:
        found = Random(settings.seed).sample(found, min(settings.templates_kept, len(found)))
    groups = {
        "train": ([t for t in found if t.split == "train"], settings.per_template),
        "held_out": ([t for t in found if t.split == "held_out"], settings.held_out_per_template),
    }
    opening = form.opening()
    for split, (group, number) in groups.items():
        pairs = list(templates.filled(group, number, settings.seed))
        for count, ((template, _), turn) in enumerate(
            zip(pairs, form.encode_all([text for _, text in pairs]), strict=True)
        ):
            note = {"slice": template.slice, "split": split, "template": template.id}
            id = f"{template.id}-{settings.seed}-{count:06d}"
            yield prompts.scripted(form, id, opening, [turn], settings.answer, settings.limit, note)


def make(
    directory: Path,
    writer: Writer,
    form: ChatFormat,
    settings: DataSettings,
    *,
    about: dict[str, Any],
    report: Report = lambda _kept, _all, _tokens: None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Make data and write it; its manifest.

    Args:
        directory: for ``rows.jsonl`` and ``manifest.json``.
        writer: who answers.
        form: of the target's chat template.
        settings: what the data is made of.
        about: the target, for the manifest.
        report: hears how it goes.
        clock: in seconds.
    """
    todo = scripts(form, settings)
    kept, tokens = 0, 0

    def heard(count: int) -> None:
        nonlocal tokens
        tokens += count
        report(kept, len(todo), tokens)

    def counted(found: Iterator[dataset.Row]) -> Iterator[dataset.Row]:
        nonlocal kept
        for row in found:
            kept += 1
            yield row

    begun = iter(todo)
    if settings.minutes:
        begun = generation.until(begun, clock() + settings.minutes * 60, clock)
    rows = generation.rows(writer.write(begun, heard), form.user_stop)
    described = asdict(settings) | {"prompts": [p.name for p in settings.prompts]}
    described["templates"] = [p.name for p in settings.templates]
    return dataset.write(directory, counted(dataset.unique(rows, set())), {**about, "settings": described})
