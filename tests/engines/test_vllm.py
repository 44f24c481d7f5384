"""VLLM without vLLM: what is decided before it runs. tests/engines/test_vllm_serving.py serves with it."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.app.server import Launch, Server
from outrider.engines import warmup
from outrider.engines.base import Engine
from outrider.engines.vllm import VLLM
from outrider.errors import EngineMissing, InvalidInput, ReplicaFailed
from outrider.models.weights import Weights
from tests.engines.conftest import await_ready, ignore
from tests.engines.installed import Installed

HERE = Weights("path:/")


def made(version: str = "0.32.0", **options: Any) -> VLLM:
    engine = VLLM(HERE, Installed("vllm", version), **options)
    engine.prepare(ignore)
    return engine


def test_it_is_an_engine() -> None:
    engine = made()
    assert isinstance(engine, Engine) and isinstance(engine, Server)
    assert engine.version() == "0.32.0"


def test_the_least_command(launch: Launch) -> None:
    assert made().command(launch) == [
        *("-m", "vllm.entrypoints.cli.main", "serve", "/"),
        *("--served-model-name", "hello", "--host", "127.0.0.1", "--port", str(launch.port)),
        *("--shutdown-timeout", "86400", "--dtype", "auto", "--tensor-parallel-size", "1"),
        *("--kv-cache-dtype", "auto", "--enable-prefix-caching"),
    ]


def test_every_option_is_a_flag_or_a_variable(launch: Launch) -> None:
    engine = made(
        dtype="bfloat16",
        quantization="fp8",
        context=4096,
        slots=32,
        batch_size=8192,
        gpus=2,
        memory_share=0.8,
        kv_cache_type="fp8",
        kv_cache_gib=2,
        threads=3,
        eager=True,
        cache_prompt=False,
        tool_call_parser="hermes",
        reasoning_parser="qwen3",
        chat_template="/t.jinja",
        trust_remote_code=True,
        sleep=True,
        extra={"seed": 7, "compilation_config": {"mode": 0}, "async_scheduling": False},
        arguments=["--brand-new"],
    )
    said = " ".join(engine.command(launch))
    for words in (
        "--dtype bfloat16 --quantization fp8 --max-model-len 4096 --max-num-seqs 32 --max-num-batched-tokens 8192",
        "--tensor-parallel-size 2 --gpu-memory-utilization 0.8 --kv-cache-dtype fp8 --no-enable-prefix-caching",
        "--tool-call-parser hermes --reasoning-parser qwen3 --chat-template /t.jinja --enforce-eager",
        "--trust-remote-code --enable-sleep-mode --enable-auto-tool-choice",
        '--seed 7 --compilation-config {"mode": 0} --no-async-scheduling',
    ):
        assert words in said
    variables = engine.variables(launch)
    assert variables["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert (variables["OMP_NUM_THREADS"], variables["VLLM_CPU_OMP_THREADS_BIND"]) == ("3", "nobind")
    assert variables["VLLM_SERVER_DEV_MODE"] == "1"
    assert engine.arguments == ("--brand-new",)


class Lora(Weights):
    """An adapter's directory whose rank is known."""

    def __init__(self, path: Path, rank: int) -> None:
        super().__init__(f"path:{path}")
        self.rank = rank


@pytest.mark.parametrize(
    ("ranks", "most", "at_once"), [((4,), "8", "1"), ((8, 9), "16", "2"), ((300,) * 9, "320", "8")]
)
def test_adapters_are_served_behind_the_endpoints_name(
    tmp_path: Path, launch: Launch, ranks: tuple[int, ...], most: str, at_once: str
) -> None:
    engine = made(adapters={f"a{number}": Lora(tmp_path, rank) for number, rank in enumerate(ranks)})
    words = engine.command(launch)
    start = words.index("--enable-lora")
    modules = [
        json.dumps({"name": f"hello:a{number}", "path": str(tmp_path), "base_model_name": "hello"})
        for number in range(len(ranks))
    ]
    assert words[start:] == [
        *("--enable-lora", "--lora-modules", *modules, "--max-lora-rank", most, "--max-loras", at_once)
    ]
    assert engine.describe()["adapters"]["a0"] == {"sources": [f"path:{tmp_path}"], "sha256": None}


def test_an_adapters_name_can_stand_behind_a_colon(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no adapter's name"):
        made(adapters={"a:b": Lora(tmp_path, 8)})


def test_the_key_is_a_variable_and_administrative_paths_stay_shut(launch: Launch) -> None:
    engine = made()
    assert launch.key not in " ".join(engine.command(launch))
    variables = engine.variables(launch)
    assert variables["VLLM_API_KEY"] == launch.key
    assert variables["HF_HUB_OFFLINE"] == "1"
    assert "VLLM_SERVER_DEV_MODE" not in variables


def test_the_variables_of_a_running_child(tmp_path: Path, launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = f"import json, os; open({str(tmp_path / 'seen')!r}, 'w').write(json.dumps(dict(os.environ)))\n"
    modules = {"vllm/__init__.py": "", "vllm/entrypoints/__init__.py": "", "vllm/entrypoints/cli/__init__.py": ""}
    environment = Installed("vllm", "0.32.0", {**modules, "vllm/entrypoints/cli/main.py": dump})
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    engine = VLLM(HERE, environment)
    engine.prepare(ignore)
    engine.start(replace(launch, env={"OF_THE_LAUNCH": "yes"}))
    with pytest.raises(ReplicaFailed) as caught:
        await_ready(engine)
    assert caught.value.details["code"] == 0
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["OF_THE_ENVIRONMENT"] == seen["OF_THE_LAUNCH"] == "yes"
    assert seen["VLLM_API_KEY"] == launch.key
    assert "HF_TOKEN" not in seen and "PYTHONHOME" not in seen


def test_a_failed_start_says_the_engines_own_error(launch: Launch) -> None:
    fail = "import sys\nprint('INFO loading')\nprint('ValueError: no such model')\nprint('bye')\nsys.exit(1)\n"
    modules = {"vllm/__init__.py": "", "vllm/entrypoints/__init__.py": "", "vllm/entrypoints/cli/__init__.py": ""}
    engine = VLLM(HERE, Installed("vllm", "0.32.0", {**modules, "vllm/entrypoints/cli/main.py": fail}))
    engine.prepare(ignore)
    engine.start(launch)
    with pytest.raises(ReplicaFailed) as caught:
        await_ready(engine)
    assert caught.value.why == "ValueError: no such model"
    assert "bye" in caught.value.details["log"]


def test_warm_up_follows_what_it_can_do() -> None:
    assert [sorted(set(payload["body"]) & {"response_format", "tools"}) for payload in made().payloads] == [
        [],
        ["response_format"],
    ]
    engine = made(tool_call_parser="hermes", shared_prefix="You are a pirate.")
    assert "tools" in engine.payloads[2]["body"]
    assert engine.payloads[3]["body"]["messages"][0] == {"role": "system", "content": "You are a pirate."}
    assert made(warm_up=[]).payloads == ()


def test_an_image_is_sent_where_the_model_takes_some() -> None:
    sent = warmup.default_payloads(tools=True, shared_prefix="You are a pirate.", images=True)
    image, _ = sent[3]["body"]["messages"][0]["content"]
    kind, _, encoded = image["image_url"]["url"].partition(";base64,")
    content = base64.b64decode(encoded, validate=True)
    assert kind == "data:image/png" and content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (64, 64)
    assert zlib.decompress(content[41:-16]) == (b"\0" + b"\x80" * 64) * 64
    assert sent[4]["body"]["messages"][0]["role"] == "system"
    assert len(warmup.default_payloads(tools=True)) == 3


def test_it_describes_itself_as_json() -> None:
    described = json.loads(json.dumps(made(slots=3, extra={"seed": 7}).describe()))
    assert described["name"] == "vllm"
    assert (described["flags"]["slots"], described["flags"]["seed"]) == (3, 7)
    assert "quantization" not in described["flags"]


def test_before_the_start_it_neither_answers_nor_ends() -> None:
    engine = made()
    assert not engine.probe()
    assert (engine.poll(), engine.metrics_url, engine.pid) == (None, None, None)
    engine.warm_up(ignore)
    engine.stop(1.0)
    with pytest.raises(ReplicaFailed, match="not started"):
        engine.sleep()


def test_an_environment_without_it() -> None:
    with pytest.raises(EngineMissing, match="vllm or vllm-cpu"):
        VLLM(HERE, Installed("something", "1")).prepare(ignore)


def test_a_flag_that_its_version_lacks_is_refused_before_weights_are_fetched() -> None:
    engine = VLLM(Weights("path:/nowhere"), Installed("vllm", "0.24.0"), extra={"aux_output_config": {}})
    with pytest.raises(InvalidInput, match=r"0\.24\.0 has no flag"):
        engine.prepare(ignore)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"context": 0}, "context"),
        ({"slots": True}, "slots"),
        ({"gpus": 1.5}, "gpus"),
        ({"memory_share": 1.2}, "memory_share"),
        ({"extra": {"enforce_eager": True}}, "eager="),
        ({"extra": {"ssl_keyfile": "/key.pem"}}, "the gateway speaks TLS"),
        ({"speculation": "ngram"}, r"outrider\.Speculation\('ngram', …\)"),
        ({"arguments": "--brand-new"}, "a list of words"),
        ({"warm_up": [{"path": "v1", "body": {}}]}, "payload 1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        made(**options)
