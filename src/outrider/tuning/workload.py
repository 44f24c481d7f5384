"""What the tuner sends: kinds of traffic, each with the requests it is measured by.

A workload is a profile's name, a trace (JSONL), or a YAML file that mixes kinds::

    concurrency: 4
    kinds:
      chat: {trace: chat.jsonl, share: 0.7}
      json: {trace: json.jsonl, share: 0.3}
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, StringConstraints, ValidationError, model_validator

from outrider.errors import InvalidSpec, InvalidWorkload
from outrider.loadgen.profiles import PROFILES, Profile
from outrider.loadgen.traces import Arrival, read_trace
from outrider.spec.base import SpecModel
from outrider.spec.documents import read_documents
from outrider.spec.problems import problems

_LARGEST = 2**20
"""Bytes of a workload file: it names files, and holds no requests."""
_SUFFIXES = (".yaml", ".yml")


class KindFile(SpecModel):
    """One kind of traffic, as a workload file declares it."""

    profile: str | None = None
    """Name of a profile (``chat``, ``realtime``, ``agentic``); its prompts are random words."""
    trace: str | None = None
    """A trace file beside the workload file, or an absolute path."""
    input_tokens: int | None = Field(default=None, ge=1)
    """Prompt of random words, in tokens; with ``output_tokens``, instead of a profile or a trace."""
    output_tokens: int | None = Field(default=None, ge=1)
    """Answer, in tokens."""
    share: float = Field(default=1.0, gt=0)
    """Share of the requests, compared with the other kinds'. 1: kinds come alike often."""

    @model_validator(mode="after")
    def _one_source(self) -> KindFile:
        lengths = (self.input_tokens, self.output_tokens)
        given = [self.profile is not None, self.trace is not None, lengths != (None, None)]
        if sum(given) != 1 or (given[2] and None in lengths):
            raise ValueError("one of profile, trace, or input_tokens with output_tokens")
        return self


class WorkloadFile(SpecModel):
    """A workload file."""

    concurrency: int | None = Field(default=None, ge=1)
    """Requests in flight at once. None: what the endpoint's spec says."""
    rate: float | None = Field(default=None, gt=0)
    """Requests a second. None: as many as the present configuration answers at that concurrency."""
    kinds: dict[Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")], KindFile] = Field(min_length=1)
    """By name: a DNS label."""


class Prompts(NamedTuple):
    """What requests are made from: the same gives the same requests.

    Attributes:
        seed: of lengths and words.
        context: tokens that a request may hold; None: not known.
    """

    seed: int
    context: int | None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of traffic.

    Attributes:
        name: what reports call it.
        share: of all requests, 0 to 1.
        profile: lengths of prompts made of random words; None: ``trace``.
        trace: requests with their times, and perhaps their messages.
    """

    name: str
    share: float
    profile: Profile | None = None
    trace: tuple[Arrival, ...] = ()

    def requests(self, count: int, prompts: Prompts, *, skip: int = 0) -> list[Arrival]:
        """``count`` requests after the first ``skip``, the same for the same arguments; their times are a trace's own.

        A trace begins anew at its end, one period later.
        """
        if self.profile is not None:
            shapes = self.profile.fitted(prompts.context).shapes(random.Random(f"{prompts.seed}/{self.name}"))
            return [Arrival(0.0, shape) for shape in itertools.islice(shapes, skip, skip + count)]
        size = len(self.trace)
        numbered = ((number // size, self.trace[number % size]) for number in range(skip, skip + count))
        return [one._replace(at=one.at + lap * self.period) for lap, one in numbered]

    @property
    def period(self) -> float:
        """Seconds of a trace, one mean gap after its last request included."""
        if not self.trace:
            return 0.0
        span = self.trace[-1].at - self.trace[0].at
        return span + span / max(1, len(self.trace) - 1)

    @property
    def timed(self) -> bool:
        """Its requests have times of their own."""
        return self.period > 0


@dataclass(frozen=True, slots=True)
class Traffic:
    """A workload as it is measured.

    Attributes:
        name: for reports.
        kinds: at least one; their shares sum to 1.
        concurrency: requests in flight at once, at least 1.
        rate: requests a second; None: to be found at ``concurrency``.
        replayed: a trace's requests come at their own times, and ``concurrency`` is only a guess before it was seen.
    """

    name: str
    kinds: tuple[Kind, ...]
    concurrency: int
    rate: float | None = None
    replayed: bool = False

    def counts(self, requests: int) -> dict[str, int]:
        """Requests of each kind out of about ``requests``: by share, at least 2."""
        return {kind.name: max(2, round(requests * kind.share)) for kind in self.kinds}


def read_workload(text: str, *, concurrency: int | None, usual: int, rate: float | None = None) -> Traffic:
    """A workload from what a user wrote: a profile's name, or the path of a trace or a workload file.

    Args:
        concurrency: said by the user; it wins over the file's. None: the file's, or a trace's own times.
        usual: the endpoint's concurrency, where nobody says one.
        rate: the endpoint's requests a second, where the file says nothing.

    Raises:
        InvalidWorkload: no such profile or file, or a file that breaks the schema.
        InvalidTrace, NotFound: a trace that cannot be read.
    """
    if text in PROFILES:
        kind = Kind(text, 1.0, PROFILES[text])
        return Traffic(text, (kind,), concurrency or usual, None if concurrency else rate)
    path = Path(text).expanduser()
    if not path.is_file():
        raise InvalidWorkload(
            f"There is no workload {text!r}",
            why="it is neither a profile nor a file",
            remedy=f"Name a profile ({', '.join(PROFILES)}), a trace (*.jsonl) or a workload file (*.yaml).",
        )
    if path.suffix.lower() not in _SUFFIXES:
        kind = Kind(_label(path.stem), 1.0, trace=tuple(read_trace(path)))
        return Traffic(kind.name, (kind,), concurrency or usual, replayed=concurrency is None and kind.timed)
    declared = _declared(path)
    whole = sum(kind.share for kind in declared.kinds.values())
    kinds = tuple(_kind(name, kind, kind.share / whole, path) for name, kind in declared.kinds.items())
    silent = concurrency is None and declared.concurrency is None and declared.rate is None
    return Traffic(
        path.stem,
        kinds,
        concurrency or declared.concurrency or usual,
        None if concurrency else rate if silent else declared.rate,
        replayed=silent and rate is None and any(kind.timed for kind in kinds),
    )


def _declared(path: Path) -> WorkloadFile:
    try:
        if path.stat().st_size > _LARGEST:
            raise InvalidWorkload(f"{path} is larger than 1 MiB", remedy="Keep requests in a trace, and name it here.")
        documents = read_documents(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InvalidWorkload(f"{path} cannot be read", why=why) from error
    except InvalidSpec as error:
        raise InvalidWorkload(f"{path} is no workload", why=error.why) from error
    if len(documents) != 1:
        raise InvalidWorkload(f"{path} is no workload", why=f"it holds {len(documents)} YAML documents, not one")
    try:
        return WorkloadFile.model_validate(documents[0])
    except ValidationError as error:
        bad = problems(WorkloadFile, error.errors())
        why = "; ".join(problem["message"] for problem in bad)
        details = {"file": str(path), "problems": [dict(problem) for problem in bad]}
        raise InvalidWorkload(f"{path} is no workload", why=why, details=details) from error


def _kind(name: str, declared: KindFile, share: float, file: Path) -> Kind:
    if declared.trace is not None:
        return Kind(name, share, trace=tuple(read_trace(file.parent / Path(declared.trace).expanduser())))
    if declared.profile is not None:
        if declared.profile not in PROFILES:
            why = f"kinds.{name}.profile = {declared.profile!r}: one of {', '.join(PROFILES)}"
            raise InvalidWorkload(f"{file} is no workload", why=why)
        return Kind(name, share, PROFILES[declared.profile])
    lengths: dict[str, Any] = {"input": declared.input_tokens, "output": declared.output_tokens}
    return Kind(name, share, Profile(name, shared=0, **lengths))


def _label(stem: str) -> str:
    kept = "".join(character if character.isascii() and character.isalnum() else "-" for character in stem.lower())
    return kept.strip("-")[:40] or "trace"
