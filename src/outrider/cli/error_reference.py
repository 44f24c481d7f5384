"""What can go wrong: read off the error classes, so that help, exit codes and reference always agree with them."""

from __future__ import annotations

from collections.abc import Iterator

from outrider.errors import OutriderError

_INTERNAL = "internal error, or one that has no number of its own"
_INTERRUPTED = (130, "interrupted with Ctrl-C")
_HOW = "python -m outrider.cli.error_reference > docs/reference/errors.md"
_INTRODUCTION = f"""# Errors

Every error has a stable `code`, one line of what failed, mostly one of why, and always one of what to do next. A
command prints these lines and exits with the number of the error's family; `--json` prints them as an object, which is
also what the REST API answers, with the HTTP status below: problem details (RFC 9457) with `title` (what), `detail`
(why), `code`, `remedy` and sometimes `details`. The gateway answers in the shape of OpenAI's API: `error.message` holds
the lines, `error.code` the code.

Whatever was refused has changed nothing. The column *what to do* is what is said where nothing more exact is known.

Made from `src/outrider/errors.py` by `{_HOW}`.
"""


def families() -> dict[int, type[OutriderError]]:
    """Exit code → the class that introduces it."""
    found = {kind.exit_code: kind for kind in _children(OutriderError)}
    return dict(sorted(found.items()))


def kinds() -> Iterator[type[OutriderError]]:
    """Every class of the tree, families in the order of their exit codes, each followed by its own."""
    yield OutriderError
    for family in families().values():
        yield family
        yield from _children(family)


def _children(kind: type[OutriderError]) -> list[type[OutriderError]]:
    # Those of the one tree: a class that some imported module derives for itself would come and go with the imports.
    return [child for child in kind.__subclasses__() if child.__module__ == OutriderError.__module__]


def epilog() -> str:
    """The last lines of ``outrider --help``; \\b keeps their breaks."""
    lines = ["  0  done", "  1  internal error"]
    lines += [f"  {code}  {_summary(kind)}" for code, kind in families().items()]
    return "\b\nExit codes (docs/reference/errors.md):\n" + "\n".join(lines)


def page() -> str:
    """``docs/reference/errors.md``, whole."""
    lines = [_INTRODUCTION, "## Exit codes", "", "| exit | meaning |", "| ---: | --- |", "| 0 | done |"]
    lines.append(f"| {OutriderError.exit_code} | {_INTERNAL} |")
    lines += [f"| {code} | {_summary(kind)} |" for code, kind in families().items()]
    lines.append(f"| {_INTERRUPTED[0]} | {_INTERRUPTED[1]} |")
    lines += ["", "## Codes", "", "| code | class | exit | HTTP | meaning | what to do |"]
    lines += ["| --- | --- | ---: | ---: | --- | --- |", *map(_row, kinds()), ""]
    return "\n".join(lines)


def _row(kind: type[OutriderError]) -> str:
    meaning = _INTERNAL if kind is OutriderError else _summary(kind)
    cells = (f"`{kind.code}`", f"`{kind.__name__}`", kind.exit_code, kind.status, meaning, kind.usual_remedy)
    return f"| {' | '.join(map(str, cells))} |"


def _summary(kind: type[OutriderError]) -> str:
    text = " ".join((kind.__doc__ or "").split()).replace("``", "`").replace(":class:", "")
    return text.split(". ")[0].rstrip(".")


if __name__ == "__main__":
    print(page(), end="")
