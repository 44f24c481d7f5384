"""What the command line exits with: read off the error classes, so that help and reference always agree with them."""

from __future__ import annotations

from outrider.errors import OutriderError

_WORDS = {1: "internal error, or one that has no number of its own", 130: "interrupted with Ctrl-C"}


def families() -> dict[int, type[OutriderError]]:
    """Exit code → the class that introduces it."""
    found = {kind.exit_code: kind for kind in _children(OutriderError)}
    return dict(sorted(found.items()))


def _children(kind: type[OutriderError]) -> list[type[OutriderError]]:
    # Those of the one tree: a class that some imported module derives for itself would come and go with the imports.
    return [child for child in kind.__subclasses__() if child.__module__ == OutriderError.__module__]


def epilog() -> str:
    """The last lines of ``outrider --help``; \\b keeps their breaks."""
    lines = ["  0  done", "  1  internal error"]
    lines += [f"  {code}  {_summary(kind)}" for code, kind in families().items()]
    return "\b\nExit codes (docs/reference/exit-codes.md):\n" + "\n".join(lines)


def page() -> str:
    """``docs/reference/exit-codes.md``, whole."""
    lines = [
        "# Exit codes",
        "",
        "Every command exits with one of these. The REST API answers the same errors as problem details (RFC 9457)",
        "with `code` and the HTTP status beside it; `--json` prints that object.",
        "",
        "| exit | code | HTTP | meaning |",
        "| ---: | --- | ---: | --- |",
        "| 0 | | | done |",
        f"| 1 | `{OutriderError.code}` | {OutriderError.status} | {_WORDS[1]} |",
    ]
    for kind in families().values():
        lines += [_row(kind), *(_row(child) for child in _children(kind))]
    lines.append(f"| 130 | | | {_WORDS[130]} |")
    how = "python -m outrider.cli.exit_codes > docs/reference/exit-codes.md"
    return "\n".join([*lines, "", f"Made from `src/outrider/errors.py` by `{how}`.", ""])


def _row(kind: type[OutriderError]) -> str:
    return f"| {kind.exit_code} | `{kind.code}` | {kind.status} | {_summary(kind)} |"


def _summary(kind: type[OutriderError]) -> str:
    text = " ".join((kind.__doc__ or "").split()).replace("``", "`")
    return text.split(". ")[0].rstrip(".")


if __name__ == "__main__":
    print(page(), end="")
