"""Server-sent events, read line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def event_data(lines: Iterable[str]) -> Iterator[str]:
    """The ``data`` of each event (several data lines joined); comments and other fields are passed over."""
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
