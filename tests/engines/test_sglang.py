"""SGLang: its command line, and its key. The engine itself needs a GPU."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from outrider.app.server import Launch
from outrider.engines.base import Engine
from outrider.engines.sglang import SGLang
from outrider.engines.speculation import Speculation
from outrider.engines.vllm import VLLM
from outrider.errors import InvalidInput, PortTaken, ReplicaFailed
from outrider.models.weights import Weights
from tests.engines.conftest import await_ready, ignore
from tests.engines.installed import Installed

HERE = Weights("path:/")
PARSER = """
import argparse, json, logging, os, sys
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("--config")
known, rest = parser.parse_known_args()
logging.basicConfig(level=logging.INFO)
key = json.loads(Path(known.config).read_text())["api-key"]
logging.getLogger("sglang.srt.entrypoints.engine").info(f"server_args=ServerArgs(api_key={key!r})")
logging.getLogger("other").info("with %s and %s", key, 3)
"""


def made(environment: Installed | None = None, **options: Any) -> SGLang:
    engine = SGLang(HERE, environment or Installed("sglang", "0.5.15.post1"), **options)
    engine.prepare(ignore)
    return engine


def of(engine: SGLang, launch: Launch) -> list[str]:
    return engine.command(launch)[2:]


class Lora(Weights):
    """An adapter's directory whose rank is known."""

    def __init__(self, path: Path, rank: int) -> None:
        super().__init__(f"path:{path}")
        self.rank = rank


def test_adapters_go_by_their_own_names(tmp_path: Path, launch: Launch) -> None:
    # SGLang takes what stands behind the first colon of a request's model for the adapter.
    words = of(made(adapters={"polite": Lora(tmp_path, 8), "blunt": Lora(tmp_path, 12)}), launch)
    start = words.index("--enable-lora")
    named = [json.dumps({"lora_name": name, "lora_path": str(tmp_path)}) for name in ("polite", "blunt")]
    assert words[start:] == [
        *("--enable-lora", "--max-lora-rank", "12", "--max-loras-per-batch", "3", "--lora-paths", *named)
    ]


def test_it_is_an_engine() -> None:
    assert isinstance(made(), Engine)
    assert made().version() == "0.5.15.post1"


def test_the_least_command(launch: Launch) -> None:
    assert of(made(), launch) == [
        *("--model-path", "/", "--served-model-name", "hello", "--host", "127.0.0.1", "--port", str(launch.port)),
        *("--enable-metrics", "--dtype", "auto", "--tensor-parallel-size", "1", "--kv-cache-dtype", "auto"),
    ]


def test_every_option_is_a_flag(launch: Launch) -> None:
    engine = made(
        quantization="fp8",
        context=4096,
        slots=32,
        batch_size=8192,
        gpus=8,
        memory_share=0.8,
        cuda_graphs=False,
        cache_prompt=False,
        tool_call_parser="qwen25",
        reasoning_parser="qwen3",
        trust_remote_code=True,
        sleep=True,
        extra={"attention_backend": "fa3", "enable_dp_attention": True},
    )
    said = " ".join(of(engine, launch))
    for words in (
        "--quantization fp8 --context-length 4096 --max-running-requests 32 --chunked-prefill-size 8192",
        "--tensor-parallel-size 8 --mem-fraction-static 0.8",
        "--tool-call-parser qwen25 --reasoning-parser qwen3",
        "--disable-radix-cache --disable-decode-cuda-graph --disable-prefill-cuda-graph",
        "--trust-remote-code --enable-memory-saver --attention-backend fa3 --enable-dp-attention",
    ):
        assert words in said


def test_the_key_is_in_a_private_file_and_neither_on_the_command_line_nor_in_the_log(launch: Launch) -> None:
    wait = "import threading\nprint('up', flush=True)\nthreading.Event().wait()\n"
    modules = {"sglang/__init__.py": "", "sglang/launch_server.py": PARSER + wait}
    engine = made(Installed("sglang", "0.5.15.post1", modules))
    engine.start(launch)
    try:
        while "up" not in (launch.log.read_text() if launch.log.exists() else ""):
            assert engine.poll() is None
        assert engine.pid is not None
        child = psutil.Process(engine.pid)
        assert launch.key not in " ".join([*child.cmdline(), *child.environ().values()])
        assert (launch.scratch / "sglang.yaml").stat().st_mode & 0o777 == 0o600
        log = launch.log.read_text()
        assert launch.key not in log
        assert "server_args=ServerArgs(api_key='***')" in log and "with *** and 3" in log
    finally:
        engine.stop(5.0)


def test_a_taken_port_is_said_so(launch: Launch) -> None:
    fail = "raise OSError('[Errno 98] error while attempting to bind: address already in use')\n"
    modules = {"sglang/__init__.py": "", "sglang/launch_server.py": fail}
    engine = made(Installed("sglang", "0.5.15.post1", modules))
    engine.start(launch)
    with pytest.raises(PortTaken, match=str(launch.port)):
        await_ready(engine)


@pytest.mark.parametrize("extra", [{"disable_radix_cache": True}, {"api_key": "x"}, {"tp": 1}, {"no_such": 1}])
def test_flags_of_its_own_or_of_nobody_are_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        made(extra=extra)


@contextmanager
def standin(port: int, status: int = 200) -> Iterator[list[tuple[str, str | None]]]:
    """A server that notes which administrative paths are asked for, in the place of an engine on a GPU."""
    asked: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, self.headers["Authorization"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("engine", "package", "paths"),
    [
        (VLLM, "vllm", ["/sleep?level=1", "/wake_up"]),
        (SGLang, "sglang", ["/release_memory_occupation", "/resume_memory_occupation"]),
    ],
)
def test_it_is_put_to_sleep_and_woken(
    engine: type[VLLM] | type[SGLang], package: str, paths: list[str], launch: Launch, tmp_path: Path
) -> None:
    wait = "import threading\nthreading.Event().wait()\n"
    packages = {"vllm/__init__.py": "", "vllm/entrypoints/__init__.py": "", "vllm/entrypoints/cli/__init__.py": ""}
    modules = {
        **packages,
        "vllm/entrypoints/cli/main.py": wait,
        "sglang/__init__.py": "",
        "sglang/launch_server.py": wait,
    }
    replica = engine(HERE, Installed(package, "0.32.0" if package == "vllm" else "0.5.23", modules), sleep=True)
    replica.prepare(ignore)
    replica.start(replace(launch))
    try:
        with pytest.raises(ReplicaFailed, match="did not answer"):
            replica.sleep(timeout=1.0)
        with standin(launch.port) as asked:
            replica.sleep()
            replica.wake()
        assert asked == [(path, f"Bearer {launch.key}") for path in paths]
        with standin(launch.port, 501), pytest.raises(ReplicaFailed, match="501"):
            replica.sleep()
    finally:
        replica.stop(5.0)


def test_nothing_with_a_grammar_is_sent_where_a_dflash_drafts() -> None:
    drafting = Speculation("dflash", drafter=HERE, quantization="none")
    sent = SGLang(HERE, Installed("sglang", "0.5.15.post1"), speculation=drafting).payloads
    assert [sorted(payload["body"].keys() & {"response_format", "tools"}) for payload in sent] == [[]]
    assert len(made(tool_call_parser="hermes").payloads) == 3


def test_it_describes_itself_as_json() -> None:
    described = json.loads(json.dumps(made(slots=3, extra={"random_seed": 7}).describe()))
    assert described["name"] == "sglang"
    assert (described["flags"]["slots"], described["flags"]["random_seed"]) == (3, 7)
