"""``outrider endpoint`` against a small controller on a real socket."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from outrider.errors import ControllerUnreachable
from tests.cli.api import READY, Api, look, replica_failed
from tests.cli.conftest import Run
from tests.client.standin import Answer, Standin


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


_CREATE = ("endpoint", "create", "--model", "org/Small")
_FAILED = look(status="failed", state="failed", reason="it died")


def test_create_tells_each_stage_and_how_to_use_it(outrider: Run, api: Api, controller: Standin) -> None:
    api.looks = [look(), look("preparing", done=5, detail="fetching"), look("starting"), look("warming"), READY]
    done = outrider(*_CREATE)
    assert (done.code, done.err) == (0, "")
    words = [line.split()[2] for line in done.out.splitlines()[:5]]
    assert words == ["preparing", "preparing", "starting", "warming", "ready"]
    for text in ("small is ready", "http://127.0.0.1:8080/v1", "curl ", "openai.OpenAI(", "/small/1/serve.py"):
        assert text in done.out
    assert "\x1b" not in done.out
    (put,) = [asked for asked in controller.asked if asked.method == "PUT"]
    assert (put.path, put.query["create"], put.body) == ("/api/v1/endpoints/small", "true", {"model": "org/Small"})


def test_what_is_printed_is_valid_python_and_shell(outrider: Run, api: Api, controller: Standin) -> None:
    out = outrider(*_CREATE).out
    python = out[out.index("  import openai") :]
    compile("\n".join(line[2:] for line in python.splitlines()), "printed", "exec")
    body = out[out.index("-d '") + 4 :].partition("'")[0]
    assert json.loads(body)["model"] == "small"
    assert "Authorization" not in out


def test_the_lines_ask_for_a_key_where_the_gateway_does(outrider: Run, api: Api, controller: Standin) -> None:
    api.keys = [{"revoked_at": 5}, {"revoked_at": None}]
    assert "Authorization: Bearer $KEY" in outrider(*_CREATE).out
    api.exists = False
    assert "Authorization" not in outrider(*_CREATE, "--unauthenticated").out


def test_create_with_json_prints_one_object(outrider: Run, api: Api, controller: Standin) -> None:
    api.looks = [look("preparing"), READY]
    done = outrider(*_CREATE, "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["state"] == "ready"


def test_every_option_lands_in_the_spec(outrider: Run, api: Api, controller: Standin) -> None:
    words = "--task embed --engine llamacpp --recipe r --gpu H200:1 --cpu 1.5 --memory 2GiB --min-replicas 2"
    sets = ("--set", "context=4096", "--set", "flash=true", "--set", "rope=0.5", "--set", "kv=q8=0")
    adapters = ("--adapter", "a=lora", "--adapter", "b=hf:org/b", "--adapter", "c=path:/l")
    outrider(*_CREATE, *words.split(), "--drafter", "path:d", "--weights", "path:x.gguf", *adapters, *sets, "--no-wait")
    body = controller.asked[-2].body if controller.asked[-2].method == "PUT" else controller.asked[-1].body
    assert body == {
        "model": "org/Small",
        "task": "embed",
        "engine": "llamacpp",
        "recipe": "r",
        "weights": f"path:{Path.cwd() / 'x.gguf'}",
        "drafter": f"path:{Path.cwd() / 'd'}",
        "adapters": {"a": f"path:{Path.cwd() / 'lora'}", "b": "hf:org/b", "c": "path:/l"},
        "resources": {"gpu": "H200:1", "cpu": 1.5, "memory": "2GiB"},
        "scaling": {"min_replicas": 2},
        "flags": {"context": 4096, "flash": True, "rope": 0.5, "kv": "q8=0"},
    }


def test_an_untested_recipe_is_refused_where_nobody_can_be_asked(outrider: Run, api: Api, controller: Standin) -> None:
    api.provenance = {"status": "untested", "note": "nobody ran it"}
    for words in ((), ("--json",)):
        done = outrider(*_CREATE, *words)
        assert (done.code, api.exists) == (2, False)
    assert "small/llamacpp-cpu is untested" in done.out + done.err
    assert "nobody ran it" in done.out + done.err
    done = outrider(*_CREATE, "--yes")
    assert (done.code, api.exists) == (0, True)


@pytest.mark.parametrize(("answer", "made"), [("y", True), ("n", False)])
def test_on_a_terminal_it_asks(
    outrider: Run, api: Api, controller: Standin, monkeypatch: pytest.MonkeyPatch, answer: str, made: bool
) -> None:
    api.provenance = {"status": "untested", "note": "nobody ran it"}
    monkeypatch.setattr("outrider.cli.consent.sys.stdin", _Terminal(f"{answer}\n"))
    monkeypatch.setattr("outrider.cli.consent.console", Console(force_terminal=True))
    done = outrider(*_CREATE)
    assert "Make the endpoint all the same? [y/N]" in done.out + done.err
    assert api.exists is made
    assert (done.code == 0) is made


def test_a_file_is_the_spec_and_options_win(outrider: Run, api: Api, controller: Standin, tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text("model: org/Small\nname: other\nresources: {cpu: 1}\n")
    outrider("endpoint", "create", "-f", str(file), "--name", "small", "--memory", "1GiB", "--no-wait")
    (put,) = [asked for asked in controller.asked if asked.method == "PUT"]
    assert put.path.endswith("/small")
    assert put.body["resources"] == {"cpu": 1.0, "memory": "1GiB"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--model", "org/Small", "--name", "Not_A_Label"), "Try 'not-a-label'"),
        (("--model", "org/Small", "--task", "generat"), "did you mean 'generate'"),
        (("--model", "org/Small", "--set", "x"), "--set name=value"),
        (("--model", "org/Small", "--memory", "lots"), "2GiB"),
        (("--model", "org/Small", "--adapter", "lora"), "--adapter name=path:DIRECTORY"),
        (("--model", "org/Small", "--adapter", "a:b=hf:org/b"), "no adapter's name"),
        (("-f", "/nonexistent.yaml"), "cannot be read"),
        ((), "No model"),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(
    outrider: Run, controller: Standin, words: tuple[str, ...], text: str
) -> None:
    done = outrider("endpoint", "create", *words)
    assert (done.code, done.out) == (2, "")
    assert text in done.err
    assert controller.asked == []


@pytest.mark.parametrize(("code", "exit_code"), [("replica_failed", 9), ("weights_corrupt", 8), ("port_taken", 7)])
def test_a_failed_create_exits_with_the_replicas_error_and_leaves_nothing(
    outrider: Run, api: Api, controller: Standin, code: str, exit_code: int
) -> None:
    api.looks = [look("preparing"), _FAILED]
    api.events = [replica_failed(code, "It broke", log=["first", "last \x1b[31mwords"])]
    done = outrider(*_CREATE)
    assert done.code == exit_code
    assert done.err.startswith("error: It broke\n  why:  why\n  next: do this\n")
    assert "small was removed again" in done.err
    assert done.err.endswith("    first\n    last words\n")
    assert not api.exists
    calls = controller.calls()
    assert calls.index("POST /api/v1/endpoints/small:stop") < calls.index("DELETE /api/v1/endpoints/small")


def test_a_failed_create_says_in_json_what_was_removed(outrider: Run, api: Api, controller: Standin) -> None:
    api.looks, api.events = [_FAILED], [replica_failed("replica_failed", "It broke", log=["x"])]
    done = outrider(*_CREATE, "--json")
    assert (done.code, done.err) == (9, "")
    assert json.loads(done.out)["details"] == {"log": ["x"], "removed": "small"}


def test_without_an_event_the_reason_is_shown(outrider: Run, api: Api, controller: Standin) -> None:
    api.looks, api.events = [_FAILED], [replica_failed("port_taken", "Another", revision=7)]
    done = outrider(*_CREATE)
    assert done.code == 9
    assert "it died" in done.err


def test_keep_keeps_it(outrider: Run, api: Api, controller: Standin) -> None:
    api.looks = [_FAILED]
    assert outrider(*_CREATE, "--keep").code == 9
    assert api.exists


def test_one_that_takes_too_long_is_removed_and_says_so(outrider: Run, api: Api, controller: Standin) -> None:
    api.looks = [look("warming")]
    done = outrider(*_CREATE, "--timeout", "1")
    assert done.code == 9
    assert "it is warming" in done.err
    assert "It was removed" in done.err
    assert not api.exists


def test_one_of_that_name_is_never_touched(outrider: Run, api: Api, controller: Standin) -> None:
    api.exists = True
    done = outrider(*_CREATE)
    assert done.code == 4
    assert api.exists
    changing = [call for call in controller.calls() if call.startswith(("POST", "DELETE"))]
    assert [call.partition("?")[0] for call in changing] == ["POST /api/v1/plans"]


def test_a_controller_that_goes_away_takes_nothing_along(outrider: Run, api: Api, controller: Standin) -> None:
    api.fails["GET /endpoints/small"] = ControllerUnreachable("gone")
    assert outrider(*_CREATE).code == 6
    assert api.exists


def test_ctrl_c_tells_how_to_go_on(
    outrider: Run, api: Api, controller: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    api.looks = [look("preparing")]
    monkeypatch.setattr("outrider.cli.waiting.time.sleep", interrupt)
    done = outrider(*_CREATE)
    assert done.code == 130
    assert "outrider endpoint rm small --purge" in done.out
    assert api.exists


def test_the_listing_is_plain_and_whole(outrider: Run, api: Api, controller: Standin) -> None:
    assert "outrider endpoint create" in outrider("endpoint", "list").out
    api.exists = True
    api.looks = [READY | {"url": "http://127.0.0.1:8080/" + "x" * 200}]
    head, row = outrider("endpoint", "list").out.splitlines()
    assert head.split() == ["name", "state", "model", "engine", "revision", "replicas", "url"]
    assert row.endswith("x" * 200)
    assert json.loads(outrider("endpoint", "list", "--json").out) == api.looks


def test_info_shows_hostile_text_as_text(outrider: Run, api: Api, controller: Standin) -> None:
    api.exists, api.looks = True, [READY | {"reason": "[/red] \x1b[2J[link=x]"}]
    done = outrider("endpoint", "info", "small")
    assert done.code == 0
    assert "[/red] [link=x]" in done.out
    assert json.loads(outrider("endpoint", "info", "small", "--json").out)["revisions"][0]["number"] == 1


def test_source_and_logs(outrider: Run, api: Api, controller: Standin) -> None:
    api.exists, api.source, api.log = True, "# é\nx = '[bold]'\n", "one\x1b[31m\ntwo\n"
    assert outrider("endpoint", "source", "small").out == api.source
    assert outrider("endpoint", "logs", "small").out == "one\ntwo\n"
    assert json.loads(outrider("endpoint", "logs", "small", "--json").out) == {"lines": ["one\x1b[31m", "two"]}


def test_following_logs_tells_where_the_next_replica_begins(outrider: Run, api: Api, controller: Standin) -> None:
    api.exists = True
    pieces: list[dict[str, Any]] = [
        {"replica": None, "lines": []},
        {"replica": "a", "lines": []},
        {"replica": "a", "lines": ["one\x1b[31m", "two"]},
        {"replica": "b", "lines": []},
        {"replica": "b", "lines": ["three"]},
    ]
    chunks = [f"event: log\ndata: {json.dumps(piece)}\n\n".encode() for piece in pieces]
    path = "GET /endpoints/small/replicas/latest/logs"
    api.answers[path] = lambda asked: Answer(kind="text/event-stream", chunks=chunks)
    done = outrider("endpoint", "logs", "small", "-f", "-n", "7")
    assert (done.code, done.out, done.err) == (
        0,
        "one\ntwo\n==> replica b <==\nthree\n",
        "no replica yet: waiting for one\n",
    )
    asked = controller.asked[-1]
    assert (asked.query["tail"], asked.headers["accept"]) == ("7", "text/event-stream")
    lines = outrider("endpoint", "logs", "small", "-f", "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == pieces


def test_events_tell_what_and_why(outrider: Run, api: Api, controller: Standin) -> None:
    api.exists = True
    assert outrider("endpoint", "events", "small").out == "nothing happened yet\n"
    api.events = [replica_failed("x", "It\nbroke")]
    assert "replica_failed  Replica 5f0c8a11d2 failed: It broke" in outrider("endpoint", "events", "small").out
    assert json.loads(outrider("endpoint", "events", "small", "--json").out) == api.events


def test_stop_start_and_rollback(outrider: Run, api: Api, controller: Standin) -> None:
    api.exists = True
    assert "outrider endpoint start small" in outrider("endpoint", "stop", "small").out
    api.stopped = False
    assert "small is ready" in outrider("endpoint", "start", "small").out
    assert "small serves revision 1" in outrider("endpoint", "rollback", "small").out


def test_only_purge_removes(outrider: Run, api: Api, controller: Standin) -> None:
    api.exists = True
    assert outrider("endpoint", "rm", "small").code == 4
    assert not [call for call in controller.calls() if call.startswith("POST")]
    assert outrider("endpoint", "rm", "small", "--purge", "--yes").out == "small is removed\n"
    assert not api.exists
    assert outrider("endpoint", "rm", "small", "--purge", "--json").code == 3


@pytest.mark.parametrize("name", ["..", "a/b", "A b", "x" * 99, "$(id)"])
@pytest.mark.parametrize("command", ["info", "source", "logs", "events", "stop", "start", "rm"])
def test_no_command_takes_a_name_that_is_none(outrider: Run, controller: Standin, command: str, name: str) -> None:
    done = outrider("endpoint", command, name)
    assert done.code == 2
    assert "is no endpoint name" in done.err
    assert controller.asked == []
