"""The settings that the guide shows are those that a training takes, and those that the shipped drafter had."""

from __future__ import annotations

from dataclasses import replace

import yaml

from outrider.drafting import settings
from outrider.drafting.card import read_card
from outrider.models.sources import SHIPPED_DRAFTERS
from tests.docs.page import ROOT, read


def test_the_guide_shows_the_settings_of_the_shipped_drafter() -> None:
    page = read(ROOT / "docs/guides/drafters.md")
    (block,) = [block for block in page.blocks if block.file == "settings.yaml"]
    shown = settings.parse(yaml.safe_load(block.text))
    used = settings.parse(read_card(SHIPPED_DRAFTERS / "smollm2-135m-instruct-dflash").hyperparameters)
    assert (shown.shape, shown.optimizer, shown.anchors) == (used.shape, used.optimizer, used.anchors)
    assert replace(shown, steps=used.steps, minutes=used.minutes) == used
