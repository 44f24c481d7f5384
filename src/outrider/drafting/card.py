"""``drafter.json``, beside a drafter's weights: what it was made from and how good it was found to be.

Engines ignore the file; the registry and ``drafter inspect`` read it. Fields that nobody knows are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from outrider.errors import WeightsUnreadable
from outrider.models.safetensors import read_object
from outrider.spec.base import SpecModel

FILE = "drafter.json"


class CardTarget(SpecModel):
    """The model that it drafts for."""

    name: str = ""
    """What people call it."""
    sha256: str | None = None
    """Digest of the weights that it was trained with. None: not known."""


class CardData(SpecModel):
    """What it was trained on."""

    manifest: str | None = None
    """Digest of the data's manifest."""
    examples: int | None = Field(default=None, ge=0)
    """Conversations."""
    tokens: int | None = Field(default=None, ge=0)
    """Tokens of answers, which are the ones trained on."""


class Card(SpecModel):
    """What is known of a drafter beside its shape."""

    name: str = ""
    """What people call it."""
    parent: str | None = None
    """The drafter that its training started from."""
    target: CardTarget = CardTarget()
    data: CardData = CardData()
    hyperparameters: dict[str, Any] = Field(default_factory=dict)
    """Of its training, by the trainer's own names."""
    modes: tuple[Literal["thinking", "non-thinking"], ...] | None = None
    """Modes of the target that it was trained in."""
    languages: tuple[str, ...] | None = None
    """Languages, by ISO 639-1 code."""
    max_context: int | None = Field(default=None, ge=1)
    """Tokens it was trained for."""
    tau: dict[str, float] = Field(default_factory=dict)
    """Slice → acceptance length, greedy, the bonus token included."""
    evaluation: dict[str, Any] = Field(default_factory=dict)
    """What else was measured: intervals, positions, prompts."""


def read_card(directory: Path) -> Card:
    """The card of a drafter's directory; an empty one where it has none.

    Raises:
        WeightsUnreadable: it is no JSON object, or a field is none of a card's.
    """
    path = directory / FILE
    if not path.exists():
        return Card()
    try:
        return Card.model_validate(read_object(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise WeightsUnreadable(
            f"{FILE} of {directory.name} is no drafter's card", why=f"{where}: {first['msg']}"
        ) from error


def write_card(directory: Path, card: Card) -> None:
    """Write the card beside the weights."""
    (directory / FILE).write_text(card.model_dump_json(indent=2, exclude_defaults=True) + "\n", encoding="utf-8")
