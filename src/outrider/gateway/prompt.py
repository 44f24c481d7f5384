"""A request's prompt as routing sees it: how long it is, and by which hashes its beginning can be told from others.

Engines keep the attention state of prompts they have seen and skip what a new prompt shares with an old one from its
start. A replica is worth returning to for as many leading blocks as it has seen, so the prompt is cut into blocks and
each block's hash is chained to the one before: two prompts share a hash exactly where they agree up to its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

BLOCK = 256
"""Characters of a block: about 64 tokens, the granularity at which engines keep prefixes (vLLM: 16 to 64)."""

REACH = 256 * 1024
"""Characters that are hashed: the 50,000 tokens of an agent's context. 64 kB take some 25 µs, all of it 0.3 ms: no more
than parsing such a body takes, and nothing beside the seconds it takes an engine to read such a prompt anew."""

BYTES_PER_TOKEN = 4
"""UTF-8 bytes a token stands for: 3 to 5 with the vocabularies in use; routing needs no better estimate."""


def _edges() -> tuple[int, ...]:
    """Ends of the blocks: each a block further, from eight blocks on an eighth further, in whole blocks."""
    ends = [BLOCK]
    while ends[-1] < REACH:
        ends.append(ends[-1] + BLOCK * max(1, ends[-1] // (8 * BLOCK)))
    return tuple(end for end in ends if end <= REACH)


EDGES = _edges()
"""Where blocks end, in characters. They grow with depth, so that a prompt of any length has at most 52 hashes and what
two prompts share is known to an eighth: an eighth of a match more or less changes no choice of replica."""


def tokens(depth: int) -> int:
    """About how many tokens so many leading blocks are."""
    return EDGES[depth - 1] // BYTES_PER_TOKEN if depth else 0


class Prompt(NamedTuple):
    """What routing knows of a prompt.

    Attributes:
        blocks: chained hashes of its leading blocks, the first block first; empty below 256 characters. They are keyed
            at random per process (Python's ``hash``): equal here says nothing elsewhere, and nobody can aim at one.
        input_tokens: estimated from the bytes of its text.
    """

    blocks: tuple[int, ...]
    input_tokens: int


NONE = Prompt((), 1)
"""Of a request without a readable prompt."""


def read(data: Mapping[str, Any]) -> Prompt:
    """The prompt of a parsed body, whichever of the five inference APIs it was written for.

    Text only, in the order in which chat templates write it, roles between. What follows an image or another part that
    is no text is counted and not hashed. Tools are left out: who offers others has another system prompt.
    """
    pieces: list[str] = []
    length = size = 0
    hashed = True
    for piece in _pieces(data):
        if piece is None:
            hashed = False
            continue
        size += len(piece) if piece.isascii() else len(piece.encode("utf-8", "surrogatepass"))
        if hashed and length < REACH:
            pieces.append(piece[:REACH])
            length += len(piece)
    model = data.get("model")
    return Prompt(
        chain("".join(pieces), str(model)) if length >= BLOCK else (),
        max(1, size // BYTES_PER_TOKEN),
    )


def chain(text: str, seed: str) -> tuple[int, ...]:
    """Chained hashes of the whole blocks at the start of a text. Another ``seed`` (the model) shares none of them."""
    blocks = []
    previous, start, length = hash(seed), 0, len(text)
    for end in EDGES:
        if end > length:
            break
        previous = hash((previous, text[start:end]))
        blocks.append(previous)
        start = end
    return tuple(blocks)


def _pieces(data: Mapping[str, Any]) -> Iterator[str | None]:
    """Texts of the prompt in order; None stands for a part that is no text."""
    for name in ("system", "instructions"):
        if data.get(name):
            yield from _texts(data[name])
    for name in ("messages", "input", "prompt"):
        messages = data.get(name)
        if messages is None:
            continue
        if isinstance(messages, list) and messages and isinstance(messages[0], int):
            yield " ".join(map(str, messages))  # token ids
        elif isinstance(messages, list):
            for message in messages:
                if isinstance(message, dict):
                    yield f"\x00{message.get('role')}\x01"
                yield from _texts(message)
        else:
            yield from _texts(messages)
        return


def _texts(item: Any) -> Iterator[str | None]:
    if isinstance(item, dict):
        item = item.get("content", item.get("text"))
    if isinstance(item, str):
        yield item
    elif isinstance(item, list):
        for part in item:
            text = part.get("text") if isinstance(part, dict) else part
            yield text if isinstance(text, str) else None
    elif item is not None:
        yield None
