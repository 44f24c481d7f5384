"""What is tuned: an endpoint as the API shows it, the traffic of one replica, the blocks that its drafters know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.errors import InvalidInput, SourceEdited, UsageError
from outrider.recipes.library import load_catalog
from outrider.recipes.planner import plan
from outrider.spec.endpoint import parse
from outrider.tuning.subject import Asked, job, trained
from outrider.tuning.tuner import Job
from tests.models.drafter_files import ZLAB, write
from tests.tuning.world import MACHINE, MODEL

ASKED = Asked("chat", 60.0, 7)


def asked(given: Asked = ASKED, *, edited: bool = False, **spec: Any) -> Job:
    wanted = {"model": MODEL, "name": "mine", **spec}
    catalog = load_catalog([])
    made = plan(parse(wanted), MACHINE, catalog)
    view = {"name": "mine", "spec": wanted, "source_edited": edited}
    return job(view, {"plan": made.model_dump(mode="json")}, given, inventory=MACHINE, catalog=catalog)


def test_the_spec_gives_one_replicas_share_of_the_traffic() -> None:
    work = asked(workload={"concurrency": 5}, scaling={"min_replicas": 2})
    assert (work.traffic.concurrency, work.traffic.rate, work.budget, work.seed) == (3, None, 60.0, 7)
    assert asked(workload={"rate": 4.0}, scaling={"min_replicas": 2}).traffic.rate == 2.0
    assert asked(Asked("chat", 60.0, 7, concurrency=2), workload={"concurrency": 5}).traffic.concurrency == 2


def test_stages_keep_their_order_however_they_are_asked_for() -> None:
    assert asked(Asked("chat", 60.0, 7, stages=("slots", "threads"))).stages == ("threads", "slots")
    assert asked(Asked("chat", 60.0, 7, methods=("ngram",))).methods == ("ngram",)


def test_what_cannot_be_tuned_is_refused_with_a_way_out() -> None:
    with pytest.raises(UsageError, match="'speed' cannot be varied"):
        asked(Asked("chat", 60.0, 7, stages=("speed",)))
    with pytest.raises(SourceEdited, match="edited by hand"):
        asked(edited=True)
    with pytest.raises(InvalidInput, match="mine cannot be tuned") as refused:
        asked(task="embed")
    assert refused.value.why == "its task is embed"


def test_a_drafters_own_files_say_how_long_its_trained_block_is(tmp_path: Path) -> None:
    there = f"path:{write(tmp_path / 'there', ZLAB)}"
    damaged = write(tmp_path / "damaged", ZLAB)
    (damaged / "config.json").write_text("{")
    found = trained([None, there, f"path:{damaged}", f"path:{tmp_path}/gone", "hf:nobody/nothing@" + 40 * "0"])
    assert found == {there: 15}


def test_the_shipped_drafter_is_known_by_its_files() -> None:
    work = asked(drafter="off")
    assert work.trained["outrider:smollm2-135m-instruct-dflash"] == 7
