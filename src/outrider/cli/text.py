"""Text from elsewhere made fit for a terminal: names, reasons and logs may hold anything."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)


def clean(text: str) -> str:
    """One line without escape sequences, control or direction characters: nothing that moves the cursor or lies."""
    bare = _ESCAPES.sub("", text)
    return "".join(character if character.isprintable() else " " for character in bare)


def clean_lines(text: str) -> str:
    """The same for text of many lines, whose line breaks stay."""
    return "".join(clean(line) + "\n" for line in text.splitlines())


def unread(error: OSError | UnicodeDecodeError) -> str:
    """Why a text file could not be read, in words for people."""
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else "it is no UTF-8 text"


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def span(seconds: float) -> str:
    """A duration for people."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
