"""What one request asks of a replica: the request's side of the choice of a replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.gateway.prompt import NONE, Prompt

HEADER = b"outrider-affinity-key"
"""Request header that names an affinity key."""

EXPECTED_OUTPUT = 256
"""Tokens an answer is taken to have where ``max_tokens`` is no lower: clients set that bound far above what they get,
and a chat's answer has some 200."""

_FIELDS = ("prompt_cache_key", "user")
_LONGEST_KEY = 512


class Demand:
    """One request's demand.

    Attributes:
        input_tokens: of the prompt, estimated.
        output_tokens: that the answer is expected to have.
        affinity: key of requests that belong on one replica, or None.
        blocks: hashes of the prompt's leading blocks (:class:`outrider.gateway.prompt.Prompt`).
        unread: input tokens that its replica has yet to read: what it was sent before is not among them. Kept by
            Admission, as is
        unwritten: output tokens that its replica has yet to write.
    """

    __slots__ = ("affinity", "blocks", "input_tokens", "output_tokens", "unread", "unwritten")

    def __init__(
        self, input_tokens: int = 1, output_tokens: int = 0, affinity: str | None = None, blocks: tuple[int, ...] = ()
    ) -> None:
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens
        self.affinity = affinity
        self.blocks = blocks
        self.unread = 0
        self.unwritten = 0

    @property
    def tokens(self) -> int:
        """Input and expected output together."""
        return self.input_tokens + self.output_tokens


def of(prompt: Prompt = NONE, max_tokens: int | None = None, affinity: str | None = None) -> Demand:
    """The demand of a request with this prompt."""
    output = EXPECTED_OUTPUT if max_tokens is None else max(0, min(max_tokens, EXPECTED_OUTPUT))
    return Demand(prompt.input_tokens, output, affinity, prompt.blocks)


def affinity_key(header: bytes | None, body: Mapping[str, Any]) -> str | None:
    """The affinity key of a request: the most deliberate one that it carries.

    ``Outrider-Affinity-Key`` first, which is sent for this and nothing else; then ``prompt_cache_key``, OpenAI's field
    for the same; then ``user``, which names a person for other reasons but whose requests mostly share a conversation.
    Empty ones and ones that are no text count as absent; of a long one the first 512 characters count.
    """
    if header:
        return header[:_LONGEST_KEY].decode("latin-1")
    for name in _FIELDS:
        value = body.get(name)
        if isinstance(value, str) and value:
            return value[:_LONGEST_KEY]
    return None
