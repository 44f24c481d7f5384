"""``endpoint apply``, ``diff`` and ``schema``, against a small controller that plans and compares as the real one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from outrider.errors import (
    Conflict,
    EndpointExists,
    EndpointNotFound,
    GenerationMismatch,
    OutriderError,
    SourceEdited,
)
from outrider.recipes.library import load_catalog
from outrider.recipes.planner import plan
from outrider.recipes.proposal import Standing, propose
from outrider.recipes.render import render
from outrider.spec.endpoint import parse
from outrider.spec.home import Home
from outrider.spec.inventory import Inventory
from outrider.spec.schema import endpoint_schema
from tests.cli.api import look, replica_failed
from tests.cli.conftest import Run
from tests.client.standin import Asked, Standin, serving

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
MACHINE = Inventory(cores=2, memory_bytes=8 << 30, disk_free_bytes=50 << 30, engines={"llamacpp": "1"})
TWO = f"model: {MODEL}\nname: one\nflags: {{slots: 2}}\n---\nmodel: {MODEL}\nname: two\n"


@dataclass
class Fleet:
    """Endpoints by name: what was put, at which revision and generation, edited or not, and whether it comes up."""

    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    edited: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    refuses: dict[str, OutriderError] = field(default_factory=dict)

    def __call__(self, asked: Asked) -> Any:
        """Answer one request."""
        path = asked.path.removeprefix("/api/v1")
        if path == "/status":
            return {"gateway": {"connected": True}}
        name, _, rest = path.removeprefix("/endpoints/").partition("/")
        if asked.method == "PUT":
            return self._put(name, asked)
        if name not in self.specs:
            raise EndpointNotFound(f"No endpoint {name!r}")
        if rest == "events":
            event = replica_failed("replica_failed", "It broke", log=["last words"], revision=self.numbers[name])
            return {"items": [event]}
        return self.view(name)

    def view(self, name: str) -> dict[str, Any]:
        """One endpoint."""
        broken, stopped = name in self.broken, name in self.stopped
        state = "stopped" if stopped else "failed" if broken else "ready"
        status, number = "failed" if broken else "active", self.numbers[name]
        view = look("" if stopped or broken else "ready", state=state, status=status, number=number, of=number)
        return view | {"name": name, "generation": number + 1, "desired": "stopped" if stopped else "running"}

    def _put(self, name: str, asked: Asked) -> Any:
        if name in self.edited and asked.query["replace_source"] != "true":
            raise SourceEdited(f"{name} runs an edited serve.py", why="a new spec would overwrite it")
        spec = parse({**asked.body, "name": name})
        made = plan(spec, MACHINE, load_catalog([]))
        if asked.query.get("dry_run") == "true":
            return propose(spec, made, render(made, version="1"), self._standing(name)).model_dump(mode="json")
        if name in self.refuses:
            raise self.refuses[name]
        if asked.query["create"] == "true" and name in self.specs:
            raise EndpointExists(name)
        expected = asked.headers.get("if-match")
        if expected and expected != f'"{self.numbers[name] + 1}"':
            raise GenerationMismatch(name)
        self.specs[name] = spec.model_dump(mode="json")
        self.numbers[name] = self.numbers.get(name, 0) + 1
        self.edited.discard(name)
        return self.view(name)

    def _standing(self, name: str) -> Standing | None:
        if name not in self.specs:
            return None
        found = plan(parse(self.specs[name]), MACHINE, load_catalog([]))
        number, edited = self.numbers[name], name in self.edited
        source = render(found, version="1") + "# mine\n" * edited
        stored = found.model_dump(mode="json")
        return Standing(self.specs[name], stored, source, number, number + 1, not edited, edited)


@pytest.fixture
def fleet() -> Fleet:
    """No endpoints yet; tests change it."""
    return Fleet()


@pytest.fixture
def controller(home: Home, fleet: Fleet) -> Iterator[Standin]:
    """The controller, answering."""
    with serving(fleet, home.api_socket) as server:
        yield server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two endpoints."""
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    return path


def _apply(outrider: Run, file: Path, *words: str, code: int = 0) -> Any:
    done = outrider("endpoint", "apply", "-f", str(file), *words, "--json")
    assert done.code == code, done
    return json.loads(done.out)


def _actions(answer: Any) -> list[tuple[str, str]]:
    return [(row["name"], row["action"]) for row in answer["endpoints"]]


def _changes_of(controller: Standin) -> list[str]:
    return [f"{a.method} {a.path}" for a in controller.asked if a.method != "GET" and a.query.get("dry_run") != "true"]


def test_applying_twice_changes_nothing(outrider: Run, fleet: Fleet, controller: Standin, file: Path) -> None:
    assert _actions(_apply(outrider, file)) == [("one", "created"), ("two", "created")]
    asked = len(_changes_of(controller))
    again = _apply(outrider, file)
    assert _actions(again) == [("one", "unchanged"), ("two", "unchanged")]
    assert fleet.numbers == {"one": 1, "two": 1}
    assert len(_changes_of(controller)) == asked
    assert [row["endpoint"]["state"] for row in again["endpoints"]] == ["ready", "ready"]


def test_what_differs_is_put_with_its_generation(outrider: Run, fleet: Fleet, controller: Standin, file: Path) -> None:
    _apply(outrider, file)
    file.write_text(TWO.replace("slots: 2", "slots: 1"))
    answer = _apply(outrider, file)
    assert _actions(answer) == [("one", "changed"), ("two", "unchanged")]
    assert answer["endpoints"][0]["changes"] == [{"path": "flags.slots", "before": 2, "after": 1}]
    assert fleet.numbers == {"one": 2, "two": 1}
    (put,) = [a for a in controller.asked if a.headers.get("if-match")]
    assert (put.headers["if-match"], put.query["create"]) == ('"2"', "false")


def test_people_read_what_became_of_each(outrider: Run, controller: Standin, file: Path) -> None:
    first = outrider("endpoint", "apply", "-f", str(file))
    assert (first.code, first.err) == (0, "")
    assert f"created    one  revision 1, {file}:1" in first.out
    assert "+ flags.slots" in first.out
    assert "  one  " in first.out and "ready" in first.out
    again = outrider("endpoint", "apply", "-f", str(file)).out
    assert again.splitlines()[:2] == [f"unchanged  one  revision 1, {file}:1", f"unchanged  two  revision 1, {file}:5"]
    assert "preparing" not in again
    assert "\x1b" not in first.out + again


def test_no_wait_does_not_look_again(outrider: Run, controller: Standin, file: Path) -> None:
    _apply(outrider, file, "--no-wait")
    assert not [call for call in controller.calls() if call.startswith("GET /api/v1/endpoints")]


def test_a_stopped_endpoint_is_not_waited_for(outrider: Run, fleet: Fleet, controller: Standin, file: Path) -> None:
    _apply(outrider, file)
    fleet.stopped = {"one"}
    answer = _apply(outrider, file)
    assert [row["endpoint"]["state"] for row in answer["endpoints"]] == ["stopped", "ready"]


def test_every_document_is_checked_before_anything_is_asked(outrider: Run, controller: Standin, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(TWO)
    (tmp_path / "b.yaml").write_text("model: x/y\ntask: genrate\n")
    done = outrider("endpoint", "apply", "-f", str(tmp_path / "a.yaml"), "-f", str(tmp_path / "b.yaml"))
    assert (done.code, done.out) == (2, "")
    assert "b.yaml:2: task = 'genrate'" in done.err
    assert controller.asked == []


def test_what_only_the_planner_finds_changes_nothing_either(
    outrider: Run, fleet: Fleet, controller: Standin, file: Path
) -> None:
    file.write_text(TWO + "flags: {slotz: 1}\n---\nmodel: no/such\nname: three\n")
    done = outrider("endpoint", "apply", "-f", str(file))
    assert (done.code, done.out) == (2, "")
    assert f"error: {file}:7: llamacpp cannot take" in done.err
    assert f"also {file}:9: Nothing is known of the model 'no/such'" in done.err
    assert _changes_of(controller) == []
    assert fleet.specs == {}


def test_an_edited_one_is_refused_before_anything_is_changed(
    outrider: Run, fleet: Fleet, controller: Standin, file: Path
) -> None:
    _apply(outrider, file)
    fleet.edited = {"two"}
    file.write_text(TWO.replace("slots: 2", "slots: 1"))
    assert _apply(outrider, file, code=4)["code"] == "source_edited"
    assert _apply(outrider, file, "--dry-run", code=4)["details"]["endpoint"] == "two"
    assert fleet.numbers == {"one": 1, "two": 1}
    answer = _apply(outrider, file, "--replace-source")
    assert _actions(answer) == [("one", "changed"), ("two", "changed")]
    assert fleet.numbers == {"one": 2, "two": 2}


def test_one_that_fails_midway_says_what_was_applied(
    outrider: Run, fleet: Fleet, controller: Standin, file: Path
) -> None:
    file.write_text(f"{TWO}---\nmodel: {MODEL}\nname: three\n")
    fleet.refuses = {"two": Conflict("two changed meanwhile", remedy="Again.")}
    error = _apply(outrider, file, code=4)
    assert (error["details"]["applied"], error["details"]["not_applied"]) == (["one"], ["two", "three"])
    done = outrider("endpoint", "apply", "-f", str(file))
    assert done.code == 4
    words = [line[:11].strip() for line in done.out.splitlines()]
    assert words == ["unchanged", "not applied", "not applied"]
    assert "error: two changed meanwhile" in done.err
    assert list(fleet.specs) == ["one"]


def test_one_that_does_not_come_up_stops_no_other(outrider: Run, fleet: Fleet, controller: Standin, file: Path) -> None:
    fleet.broken = {"one"}
    error = _apply(outrider, file, code=9)
    assert error["title"] == "It broke"
    rows = {row["name"]: row for row in error["details"]["endpoints"]}
    assert rows["one"]["error"]["code"] == "replica_failed"
    assert (rows["two"]["error"], rows["two"]["endpoint"]["state"]) == (None, "ready")
    done = outrider("endpoint", "apply", "-f", str(file))
    assert done.code == 9
    assert "failed: It broke" in done.out
    assert done.err.endswith("last words\n")
    assert set(fleet.specs) == {"one", "two"}


def test_a_dry_run_changes_nothing(outrider: Run, fleet: Fleet, controller: Standin, file: Path) -> None:
    answer = _apply(outrider, file, "--dry-run")
    assert (answer["dry_run"], answer["compared_with"]) == (True, "controller")
    assert _actions(answer) == [("one", "created"), ("two", "created")]
    said = outrider("endpoint", "apply", "-f", str(file), "--dry-run").out
    assert "nothing was changed: 2 to create, 0 to change, 0 unchanged" in said
    assert fleet.specs == {}
    assert _changes_of(controller) == []


def test_diff_shows_fields_plan_and_source(outrider: Run, fleet: Fleet, controller: Standin, file: Path) -> None:
    _apply(outrider, file)
    assert outrider("endpoint", "diff", "-f", str(file), "--exit-code").code == 0
    file.write_text(TWO.replace("slots: 2", "slots: 1") + "description: new\n")
    done = outrider("endpoint", "diff", "-f", str(file))
    assert done.code == 0
    for line in ("~ flags.slots", "2 → 1", "-    slots=2,", "+    slots=1,", '~ description  "" → "new"'):
        assert line in done.out
    assert done.out.endswith("0 to create, 2 to change, 0 unchanged\n")
    assert outrider("endpoint", "diff", "-f", str(file), "--exit-code").code == 1
    found = json.loads(outrider("endpoint", "diff", "-f", str(file), "--json").out)["endpoints"]
    assert [(row["action"], row["line"]) for row in found] == [("changed", 1), ("changed", 5)]
    assert "+    slots=1," in found[0]["source_diff"]
    assert fleet.numbers == {"one": 1, "two": 1}


def test_diff_shows_an_edited_one_and_says_so(outrider: Run, fleet: Fleet, controller: Standin, file: Path) -> None:
    _apply(outrider, file)
    fleet.edited = {"two"}
    done = outrider("endpoint", "diff", "-f", str(file))
    assert done.code == 0
    assert "-# mine" in done.out
    assert "--replace-source" in done.out


@pytest.mark.parametrize("words", [("apply", "--dry-run"), ("diff",)])
def test_without_a_controller_it_is_compared_with_nothing(
    outrider: Run, home: Home, file: Path, words: tuple[str, ...]
) -> None:
    before = sorted(home.root.rglob("*"))
    done = outrider("endpoint", *words, "-f", str(file))
    assert (done.code, done.err) == (0, "")
    assert "2 to create" in done.out
    assert "compared with nothing" in done.out
    found = json.loads(outrider("endpoint", *words, "-f", str(file), "--json").out)
    assert found["compared_with"] == "nothing"
    assert all(row["plan"]["engine"] == "llamacpp" for row in found["endpoints"])
    assert sorted(home.root.rglob("*")) == before


@pytest.mark.parametrize("command", ["apply", "diff"])
def test_a_file_must_be_named(outrider: Run, home: Home, command: str) -> None:
    done = outrider("endpoint", command)
    assert done.code == 2
    assert "-f FILE" in done.err


def test_the_schema_is_printed(outrider: Run, home: Home) -> None:
    assert json.loads(outrider("endpoint", "schema").out) == endpoint_schema()


def test_ctrl_c_leaves_what_was_applied(
    outrider: Run, fleet: Fleet, controller: Standin, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("outrider.cli.several.wait_all", interrupt)
    done = outrider("endpoint", "apply", "-f", str(file))
    assert done.code == 130
    assert "they go on without you" in done.out
    assert set(fleet.specs) == {"one", "two"}


def test_a_remote_controller_is_asked_too(
    outrider: Run, home: Home, fleet: Fleet, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(fleet) as server:
        monkeypatch.setenv("OUTRIDER_URL", server.url)
        assert _actions(_apply(outrider, file, "--dry-run")) == [("one", "created"), ("two", "created")]
        assert _actions(_apply(outrider, file)) == [("one", "created"), ("two", "created")]
    assert fleet.numbers == {"one": 1, "two": 1}
