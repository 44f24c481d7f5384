"""A DFlash drafter of the user's own, checked and loaded by the real vLLM. Only ``make test-vllm`` runs this."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.outrider_process import MODEL, Outrider, until
from tests.engines import vllm_parts
from tests.models.drafter_files import write_tiny

pytestmark = [pytest.mark.vllm, pytest.mark.e2e, pytest.mark.timeout(900)]


def test_a_drafter_that_passes_the_check_is_loaded(outrider: Outrider, tmp_path: Path) -> None:
    vllm_parts.environment()
    drafter = write_tiny(tmp_path / "draft", hidden=576, target_layers=30, vocab=49152, mask=16, taps=(1, 15, 27))
    words = (
        *("--model", MODEL, "--engine", "vllm", "--weights", f"path:{vllm_parts.weights()}"),
        *("--set", "context=1024", "--set", "slots=2", "--drafter", f"path:{drafter}"),
    )
    made = outrider.json("endpoint", "plan", *words)
    drafting = next(one for one in made["decisions"] if one["choice"] == "drafter")
    assert drafting["value"] == f"dflash path:{drafter}"
    assert any("mask token 16" in note for note in drafting["notes"]), "SmolLM2 has no unused row: every id is a token"
    outrider.json("endpoint", "create", *words, "--name", "drafted", "--no-wait", "--yes")

    def ready() -> bool:
        info = outrider.json("endpoint", "info", "drafted")
        assert info["state"] != "failed", info
        return bool(info["state"] == "ready")

    until(ready, seconds=600)
    answer = outrider.chat("drafted", tokens=12)
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] == 12

    def drafted() -> bool:
        outrider.chat("drafted", tokens=12)  # the first may be over before the engine's page was read once
        engine = outrider.json("endpoint", "stats", "drafted")["engine"]
        return bool(engine and engine["acceptance_length"])

    until(drafted, seconds=30)
