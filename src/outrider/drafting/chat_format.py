"""How a target's chat template frames turns, as tokens: what stands before a user's words, between, and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError

_FIRST, _SECOND, _THIRD = "OUTRIDER-ONE", "OUTRIDER-TWO", "OUTRIDER-THREE"

Tokens = tuple[int, ...]


class ChatFormat:
    """Frames of ``tokenizer``'s chat template.

    Attributes:
        stops: tokens that end a turn.
        user_stop: the token that ends a user's turn.
        bridge: from after that token to where the answer starts.
        again: from after the answer's last token to where the next user's turn starts.
    """

    def __init__(self, tokenizer: Any, eos: Sequence[int] = ()) -> None:
        """Read the template by rendering marked turns.

        Args:
            tokenizer: with a chat template.
            eos: further tokens that end a turn (``generation_config.eos_token_id``).

        Raises:
            UsageError: there is no chat template, or it changes what is said.
        """
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError("The target's tokenizer has no chat template", remedy="Take an instruction-tuned target.")
        self._tokenizer = tokenizer
        _, after = self._split([{"role": "user", "content": _FIRST}], _FIRST, generate=True)
        turns = [{"role": "user", "content": _FIRST}, {"role": "assistant", "content": _SECOND}]
        _, rest = self._split([*turns, {"role": "user", "content": _THIRD}], _SECOND)
        between = rest.partition(_THIRD)[0]
        self.user_stop, *bridge = self.encode(after)
        self.stops = frozenset({self.user_stop, *eos, *self._eos()})
        _, *again = self.encode(between)
        self.bridge, self.again = tuple(bridge), tuple(again)

    def encode(self, text: str) -> Tokens:
        """Tokens of ``text``, nothing added."""
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def encode_all(self, texts: list[str]) -> list[Tokens]:
        """Tokens of each text: many at once is faster."""
        return [tuple(ids) for ids in self._tokenizer(texts, add_special_tokens=False)["input_ids"]] if texts else []

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of ``tokens``."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def opening(self, system: str | None = None) -> Tokens:
        """Everything before the first user's words; without ``system`` the template's own."""
        turns = [] if system is None else [{"role": "system", "content": system}]
        before, _ = self._split([*turns, {"role": "user", "content": _FIRST}], _FIRST, generate=True)
        return self.encode(before)

    def _split(self, turns: Sequence[Mapping[str, str]], mark: str, *, generate: bool = False) -> tuple[str, str]:
        text = str(self._tokenizer.apply_chat_template(list(turns), tokenize=False, add_generation_prompt=generate))
        before, found, after = text.partition(mark)
        if not found:
            raise UsageError("The target's chat template leaves out what is said", remedy="Take another template.")
        return before, after

    def _eos(self) -> list[int]:
        eos = self._tokenizer.eos_token_id
        return [] if eos is None else [eos]
