"""A LoRA adapter served by the real vLLM, through the real gateway. Only ``make test-vllm`` runs this."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.outrider_process import MODEL, Outrider, until
from tests.engines import tiny_lora, vllm_parts

pytestmark = [pytest.mark.vllm, pytest.mark.e2e, pytest.mark.timeout(900)]


def test_an_adapter_answers_under_its_own_name(outrider: Outrider, tmp_path: Path) -> None:
    vllm_parts.environment()
    polite = tiny_lora.write_adapter(tmp_path / "polite", hidden=576, writes=576, seed=1)
    blunt = tiny_lora.write_adapter(tmp_path / "blunt", hidden=576, writes=576, seed=2, rank=12)
    outrider.json(
        *("endpoint", "create", "--model", MODEL, "--name", "tuned", "--engine", "vllm"),
        *("--weights", f"path:{vllm_parts.weights()}", "--set", "context=1024", "--set", "slots=2"),
        *("--adapter", f"polite={polite}", "--adapter", f"blunt=path:{blunt}", "--no-wait", "--yes"),
    )

    def ready() -> bool:
        info = outrider.json("endpoint", "info", "tuned")
        assert info["state"] != "failed", info
        return bool(info["state"] == "ready")

    until(ready, seconds=600)
    source = outrider.run("endpoint", "source", "tuned")
    assert "outrider.Adapter(" in source and source.count("sha256=") >= 2
    listed = [model["id"] for model in httpx.get(f"{outrider.url}/v1/models").json()["data"]]
    assert listed == ["tuned", "tuned:polite", "tuned:blunt"]
    answers = {name: _logprobs(outrider, name) for name in listed}
    assert answers["tuned"] != answers["tuned:polite"] != answers["tuned:blunt"] != answers["tuned"]
    assert _logprobs(outrider, "tuned") == answers["tuned"], "the adapters leave the model itself alone"
    wrong = outrider.chat("tuned:polit", tokens=1)
    assert wrong.status_code == 404
    assert "'tuned:polite'" in wrong.json()["error"]["message"]


def _logprobs(outrider: Outrider, name: str) -> list[float]:
    """Of the first tokens of a fixed prompt, as the model scores them, drawing none by chance."""
    body: dict[str, Any] = {"model": name, "prompt": "The sky is", "max_tokens": 4, "temperature": 0, "logprobs": 1}
    answer = httpx.post(f"{outrider.url}/v1/completions", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model"] == name
    return [round(value, 3) for value in answer.json()["choices"][0]["logprobs"]["token_logprobs"]]
