"""``outrider model`` against a hub on loopback, a cache of its own, and a small controller on a real socket."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from outrider.errors import DiskFull
from outrider.models.cache import Cache
from outrider.recipes.library import SHIPPED
from outrider.spec.home import Home
from tests.cli.api import READY, Api, look
from tests.cli.conftest import Run
from tests.client.standin import Standin
from tests.models.hub_server import Hub, serve

CONTENT = b"weights" * 500_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PINNED = "hf:org/model@main#model.gguf"
LOOSE = "hf:org/model#other.gguf"
RECIPE = "model/llamacpp-cpu"


@pytest.fixture
def hub(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with two files, one of them of a recipe of the user's own."""
    recipe: dict[str, Any] = next(yaml.safe_load_all((SHIPPED / "smollm2.yaml").read_text()))
    recipe["id"] = RECIPE
    recipe["model"] |= {"id": "org/Model", "aliases": ["model"]}
    recipe["weights"] = [{"reference": PINNED, "sha256": SHA256, "bytes": len(CONTENT)}]
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/own.yaml").write_text(yaml.safe_dump(recipe))
    monkeypatch.setenv("OUTRIDER_RECIPES", str(tmp_path / "recipes"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serve({"model.gguf": CONTENT, "other.gguf": b"other"}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        # Read once, when the package is first imported: whatever test that was in.
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        yield server


def damage(path: Path) -> None:
    """Change a byte as a failing disk does: size and times stay."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def blob(home: Home) -> Path:
    return home.cache / "blobs/sha256" / SHA256 / "model.gguf"


@pytest.mark.parametrize("name", ["org/Model", "MODEL", RECIPE, PINNED])
def test_pull_takes_a_model_a_recipe_or_a_reference(outrider: Run, hub: Hub, home: Home, name: str) -> None:
    done = outrider("model", "pull", name)
    assert (done.code, done.err) == (0, "")
    assert "downloading model.gguf (3.5 MB)" in done.out
    assert f"{name} is in the cache, fetched in " in done.out
    assert blob(home).read_bytes() == CONTENT
    assert f"{name} is in the cache already: 3.5 MB at {blob(home)}\n" == outrider("model", "pull", name).out
    assert [file for file, _ in hub.downloads] == ["model.gguf"]


def test_pull_in_json_says_whether_it_fetched(outrider: Run, hub: Hub, home: Home) -> None:
    said = {"path": str(blob(home)), "sha256": SHA256, "bytes": len(CONTENT)}
    assert json.loads(outrider("model", "pull", RECIPE, "--json").out) == said | {"fetched": True}
    assert json.loads(outrider("model", "pull", RECIPE, "--json").out) == said | {"fetched": False}


def test_pull_goes_on_where_it_broke_off(outrider: Run, hub: Hub) -> None:
    hub.break_at = 2_000_000
    assert outrider("model", "pull", RECIPE).code == 0
    assert [wanted for _, wanted in hub.downloads] == [None, "bytes=1048576-"]


def test_pull_refuses_what_is_not_what_the_recipe_promised(outrider: Run, hub: Hub, home: Home) -> None:
    hub.files["model.gguf"] = CONTENT[:-1] + b"!"
    done = outrider("model", "pull", PINNED)
    assert done.code == 8
    assert f"expected {SHA256[:12]}" in done.err
    assert json.loads(outrider("model", "list", "--json").out) == []


def test_pull_looks_at_the_disk_before_it_asks_anybody(
    outrider: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Cache, need: int) -> None:
        raise DiskFull("Not enough disk", details={"needed": need})

    monkeypatch.setattr(Cache, "require_free", full)
    done = outrider("model", "pull", RECIPE, "--json")
    assert (done.code, json.loads(done.out)["details"]) == (7, {"needed": len(CONTENT)})
    assert hub.downloads == []


def test_a_path_is_used_where_it_lies(outrider: Run, hub: Hub, home: Home, tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"x")
    assert "used where it lies, nothing was fetched" in outrider("model", "pull", f"path:{file}").out
    assert outrider("model", "pull", f"path:{tmp_path / 'none.gguf'}").code == 8
    assert Cache(home.cache).blobs() == []


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("org/Modle", 3, "Did you mean org/Model?"),
        ("hf:org/name/more", 2, "a repository is org/name"),
        ("hf:org/model#absent.gguf", 8, "has no such file"),
        ("path:relative", 2, "must be absolute"),
    ],
)
def test_what_cannot_be_pulled_is_said_and_leaves_nothing(
    outrider: Run, hub: Hub, home: Home, name: str, code: int, says: str
) -> None:
    done = outrider("model", "pull", name)
    assert done.code == code
    assert says in done.err
    assert Cache(home.cache).blobs() == []
    assert Cache(home.cache).unfinished() == 0


def test_the_recipes_of_a_model_may_differ_and_then_one_must_be_named(outrider: Run, hub: Hub, tmp_path: Path) -> None:
    recipe = yaml.safe_load((tmp_path / "recipes/own.yaml").read_text())
    recipe |= {"id": "model/other", "weights": [{"reference": LOOSE}]}
    (tmp_path / "recipes/other.yaml").write_text(yaml.safe_dump(recipe))
    done = outrider("model", "pull", "org/Model")
    assert done.code == 2
    assert f"why:  {RECIPE}, model/other\n" in done.err
    assert outrider("model", "pull", "model/other").code == 0


def test_the_listing_says_what_each_is(outrider: Run, hub: Hub, home: Home) -> None:
    assert "outrider model pull" in outrider("model", "list").out
    outrider("model", "pull", RECIPE)
    outrider("model", "pull", LOOSE)
    one, two = json.loads(outrider("model", "list", "--json").out)
    assert (one["models"], one["recipes"], one["references"]) == (["org/Model"], [RECIPE], [PINNED])
    assert (one["sha256"], one["bytes"], one["used_by"]) == (SHA256, len(CONTENT), None)
    assert (two["models"], two["references"]) == ([], ["hf:org/model@main#other.gguf"])
    shown = outrider("model", "list").out
    assert f"org/Model  {PINNED}" in shown
    assert "no controller answers" in shown


def test_last_used_is_when_somebody_last_asked_for_it(outrider: Run, hub: Hub, home: Home) -> None:
    outrider("model", "pull", RECIPE)
    os.utime(blob(home).parent, (1_000_000_000, 1_000_000_000))
    assert json.loads(outrider("model", "list", "--json").out)[0]["used_at"] == 1_000_000_000_000
    assert "2001-09-09 01:46:40" in outrider("model", "list").out
    outrider("model", "pull", RECIPE)
    assert json.loads(outrider("model", "list", "--json").out)[0]["used_at"] > 1_000_000_000_000


def test_an_unfinished_download_is_told(outrider: Run, hub: Hub, home: Home) -> None:
    outrider("model", "pull", RECIPE)
    (Cache(home.cache).workspace("hf:a/b") / "x.part").write_bytes(b"x" * 2000)
    assert "2.0 kB of unfinished downloads" in outrider("model", "list").out


@pytest.fixture
def used(outrider: Run, hub: Hub, api: Api, controller: Standin) -> Api:
    """The blob in the cache and an endpoint whose revisions use it: 1 pinned, 2 by a loose reference."""
    outrider("model", "pull", RECIPE)
    outrider("model", "pull", LOOSE)
    rows = [{"number": 1, "weights": {"sources": [PINNED], "sha256": SHA256}}]
    rows.append({"number": 2, "weights": {"sources": ["hf:a/b", LOOSE], "sha256": None}})
    rows.append({"number": 3, "weights": None})
    api.answers["GET /endpoints/small/revisions"] = lambda asked: {"items": rows}
    api.exists = True
    return api


def test_the_listing_says_who_uses_each(outrider: Run, used: Api) -> None:
    one, two = json.loads(outrider("model", "list", "--json").out)
    assert one["used_by"] == [{"endpoint": "small", "revision": 1, "live": True}]
    assert two["used_by"] == [{"endpoint": "small", "revision": 2, "live": False}]
    assert "small 2 (not running)" in outrider("model", "list").out


def test_what_a_running_endpoint_uses_is_not_removed(outrider: Run, used: Api, home: Home) -> None:
    done = outrider("model", "rm", SHA256[:8])
    assert done.code == 4
    assert "why:  small uses it\n" in done.err
    assert "outrider endpoint stop small" in done.err
    assert blob(home).exists()
    assert outrider("model", "rm", LOOSE).code == 0  # of a revision that does not run
    assert outrider("model", "rm", SHA256[:8], "--force").code == 0
    assert not blob(home).exists()


def test_a_replica_of_an_older_revision_counts_as_running(outrider: Run, used: Api) -> None:
    used.looks = [look("draining", number=3, status="active")]
    assert outrider("model", "rm", RECIPE).code == 4
    used.looks = [READY | {"replicas": [], "desired": "stopped"}]
    assert outrider("model", "rm", RECIPE).code == 0


def test_replicas_that_no_controller_speaks_for_are_not_robbed(outrider: Run, hub: Hub, home: Home) -> None:
    outrider("model", "pull", RECIPE)
    (home.replicas / "5f0c8a11d2").mkdir()
    done = outrider("model", "rm", RECIPE)
    assert done.code == 4
    assert "no controller says" in done.err
    assert blob(home).exists()


def test_rm_says_how_to_get_it_back(outrider: Run, hub: Hub, home: Home) -> None:
    outrider("model", "pull", RECIPE)
    done = outrider("model", "rm", "org/model")
    assert (
        done.out == f"model.gguf is removed: 3.5 MB are free again\n  get it back with: outrider model pull {RECIPE}\n"
    )
    outrider("model", "pull", RECIPE)
    said = json.loads(outrider("model", "rm", SHA256, "--json").out)
    assert said == {"removed": SHA256, "name": "model.gguf", "freed": len(CONTENT)}
    assert outrider("model", "rm", SHA256).code == 3
    assert outrider("model", "rm", "no-such").code == 3


def test_a_beginning_of_several_digests_is_refused(outrider: Run, home: Home) -> None:
    for last in "ab":
        directory = home.cache / "blobs/sha256" / ("f" * 63 + last)
        directory.mkdir(parents=True)
        (directory / "x.gguf").write_bytes(b"x")
    done = outrider("model", "rm", "ffffff")
    assert (done.code, "Give more digits" in done.err) == (2, True)


def test_on_a_terminal_rm_asks_first(outrider: Run, hub: Hub, home: Home) -> None:
    outrider("model", "pull", RECIPE)
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "outrider.cli.main", "model", "rm", RECIPE]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True) as process:
        os.close(terminal)
        said = b""
        while b"[y/N]" not in said:
            assert select.select([master], [], [], 60)[0], said
            said += os.read(master, 1000)
        os.write(master, b"n\n")
        assert process.wait(60) == 130
    os.close(master)
    assert b"Remove model.gguf (3.5 MB)?" in said
    assert blob(home).exists()


def test_verify_reads_everything_and_removes_nothing(outrider: Run, hub: Hub, home: Home) -> None:
    outrider("model", "pull", RECIPE)
    outrider("model", "pull", LOOSE)
    done = outrider("model", "verify", "--all")
    assert (done.code, done.out.count("whole")) == (0, 2)
    damage(blob(home))
    done = outrider("model", "verify")
    assert done.code == 8
    assert f"why:  {blob(home)} no longer has SHA-256 {SHA256[:12]}…\n" in done.err
    assert f"next: Fetch it again: outrider model pull {RECIPE}\n" in done.err
    assert [line.split()[-1] for line in done.out.splitlines()[-2:]] == ["damaged", "whole"]
    assert blob(home).exists()
    assert outrider("model", "verify", LOOSE).code == 0


def test_pull_mends_what_verify_found(outrider: Run, hub: Hub, home: Home) -> None:
    outrider("model", "pull", RECIPE)
    damage(blob(home))
    assert json.loads(outrider("model", "verify", "--json").out)["details"]["blobs"][0]["state"] == "damaged"
    assert outrider("model", "pull", RECIPE).code == 0
    assert blob(home).read_bytes() == CONTENT


def test_repair_fetches_again_what_is_damaged(outrider: Run, hub: Hub, home: Home) -> None:
    outrider("model", "pull", RECIPE)
    damage(blob(home))
    said = json.loads(outrider("model", "verify", RECIPE, "--repair", "--json").out)
    assert [row["state"] for row in said] == ["repaired"]
    assert blob(home).read_bytes() == CONTENT
    assert len(hub.downloads) == 2


def test_what_nobody_can_bring_again_is_not_removed_by_repair(outrider: Run, hub: Hub, home: Home) -> None:
    lonely = home.cache / "blobs/sha256" / ("e" * 64) / "x.gguf"
    lonely.parent.mkdir(parents=True)
    lonely.write_bytes(b"x")
    done = outrider("model", "verify", "--repair")
    assert done.code == 8
    assert f"outrider model rm {'e' * 12}" in done.err
    assert lonely.exists()


def test_a_target_and_all_do_not_go_together(outrider: Run, home: Home) -> None:
    assert outrider("model", "verify", SHA256, "--all").code == 2
    assert outrider("model", "verify").out == "no weights in the cache\n"
