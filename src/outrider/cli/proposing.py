"""What files would change: asked of the controller, or, where none runs, planned here and compared with nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from outrider.cli.explaining import plan_here
from outrider.cli.terminal import console
from outrider.client.http import Client
from outrider.errors import ControllerUnreachable, InvalidSpec, OutriderError
from outrider.recipes.proposal import Proposal, propose
from outrider.spec.files import Declared


def ask(client: Client, declared: Sequence[Declared], *, replace_source: bool, quiet: bool) -> list[Proposal]:
    """What the controller would change for each, in order. All are asked before an error is raised.

    Raises:
        the error of the first that cannot be applied (SourceEdited, UnknownModel, InvalidSpec, …), with its place in
        the files; the others' are named in it. ControllerUnreachable: at once.
    """

    def asked(entry: Declared) -> Proposal:
        answer = client.propose(entry.name, entry.spec(), replace_source=replace_source)
        return Proposal.model_validate(answer)

    return _each(declared, asked, quiet=quiet)


def plan_alone(declared: Sequence[Declared], *, quiet: bool) -> list[Proposal]:
    """What would be made for each where nothing exists yet, planned in this process; errors as in :func:`ask`."""
    from outrider._version import __version__
    from outrider.recipes.render import render

    def planned(entry: Declared) -> Proposal:
        spec = entry.endpoint.model_copy(update={"name": entry.name})
        made = plan_here(spec)
        return propose(spec, made, render(made, version=__version__), None)

    return _each(declared, planned, quiet=quiet)


def _each(declared: Sequence[Declared], make: Callable[[Declared], Proposal], *, quiet: bool) -> list[Proposal]:
    found: list[Proposal] = []
    errors: list[OutriderError] = []
    with _progress(declared, quiet) as told:
        for entry in declared:
            told(entry)
            try:
                found.append(make(entry))
            except ControllerUnreachable:
                raise
            except OutriderError as error:
                errors.append(_placed(error, entry))
    _raise_first(errors)
    return found


def _placed(error: OutriderError, entry: Declared) -> OutriderError:
    field = str(error.problems[0].get("field", "")) if isinstance(error, InvalidSpec) else ""
    error.what = f"{entry.place(field)}: {error.what}"
    error.details |= {"endpoint": entry.name, "file": entry.file, "line": entry.line}
    return error


def _raise_first(errors: Sequence[OutriderError]) -> None:
    if not errors:
        return
    first, *others = errors
    if others:
        also = "; ".join(other.what for other in others)
        first.why = f"{first.why}; also {also}" if first.why else f"also {also}"
        first.details["others"] = [other.problem() for other in others]
    raise first


@contextmanager
def _progress(declared: Sequence[Declared], quiet: bool) -> Iterator[Callable[[Declared], None]]:
    """Says which endpoint is being looked at, where a terminal can show it."""
    if quiet or not console.is_terminal:
        yield lambda entry: None
        return
    with console.status("checking") as status:

        def told(entry: Declared) -> None:
            number = declared.index(entry) + 1
            status.update(f"checking {entry.name} ({number} of {len(declared)})")

        yield told
