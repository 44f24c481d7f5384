"""Endpoint names: DNS labels (RFC 1123) of at most 40 characters, since they become parts of host names and paths.

An adapter is named after its endpoint and a colon: ``support-chat:polite``.
"""

from __future__ import annotations

import re

from outrider.errors import InvalidName

LONGEST = 40
LABEL = r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?"
"""A whole name, as a regular expression."""
ADAPTER = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""An adapter's name, likewise: what stands behind the colon of a request's ``model``."""


def check_name(name: str) -> str:
    """Return ``name``. Raises InvalidName with the nearest valid spelling."""
    if not re.fullmatch(LABEL, name):
        near = nearest_name(name)
        raise InvalidName(
            f"{name[:80]!r} is no endpoint name",
            why=f"a name is a DNS label: lower-case letters, digits and hyphens, at most {LONGEST} characters",
            remedy=f"Try {near!r}." if near else "For example: support-chat",
        )
    return name


def nearest_name(text: str) -> str:
    """The valid name nearest to any text; empty if nothing of it can stay."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:LONGEST].strip("-")


def name_for_model(model: str) -> str:
    """The name of an endpoint that was given none: the last part of the model's, made a label."""
    last = re.split(r"[/:#]", model.rstrip("/"))[-1]
    return nearest_name(re.sub(r"\.(gguf|safetensors)$", "", last)) or "model"
