"""What a tuning says and leaves: break-even, slices, a recipe that the linter accepts, a report, a plot."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
import yaml

from outrider.recipes.lint import RecipeFile, lint
from outrider.recipes.schema import Recipe
from outrider.tuning import findings, plot, report
from outrider.tuning.recipe import Circumstances, recipe_of, winner, written
from outrider.tuning.settings import Setting
from outrider.tuning.subject import tuned_spec
from outrider.tuning.trial import Loaded, Sample, pooled
from outrider.tuning.tuner import CURVE, Tuner, Tuning
from tests.tuning.world import FakeBench, FakeClock, Quiet, job

TODAY = date(2026, 11, 30)
HOW = Circumstances("two cores of a CPU", "outrider endpoint tune mine --workload chat", TODAY)
STEP = {0: 0.010, 2: 0.012, 4: 0.014, 8: 0.018}
"""Seconds of a verification step, by tokens drafted."""
TAU = {2: 1.5, 4: 2.0, 8: 1.2}


def drafted(setting: Setting) -> int:
    return (setting.speculation.tokens or 0) if setting.speculation.method != "off" else 0


@pytest.fixture(scope="module")
def tuning(tmp_path_factory: pytest.TempPathFactory) -> Tuning:
    """n-gram drafts of 4 are the best: 14 ms a step of two tokens, where plain decoding takes 10 for one."""
    directory = tmp_path_factory.mktemp("workload")
    line = {"at": 0, "output_tokens": 8, "messages": [{"role": "user", "content": "hello"}]}
    (directory / "t.jsonl").write_text(json.dumps(line) + "\n")
    file = directory / "mixed.yaml"
    file.write_text("concurrency: 4\nkinds:\n  said: {trace: t.jsonl}\n  words: {profile: chat}\n")
    bench = FakeBench(
        FakeClock(),
        lambda setting, at: STEP[drafted(setting)] / TAU.get(drafted(setting), 1.0),
        tau=lambda setting: TAU.get(drafted(setting)),
    )
    work = job(stages=("speculation",), workload=str(file), concurrency=None)
    return Tuner(work, bench, Quiet(), clock=bench.clock).run()


def test_break_even_is_the_step_over_plain_decodings(tuning: Tuning) -> None:
    points = {(point.setting.drafting, point.concurrency): point for point in findings.curves(tuning) if not point.kind}
    assert {level for _, level in points} == {1, 2, 4}
    for tokens, step in STEP.items():
        point = points["off" if tokens == 0 else f"ngram {tokens}", 4]
        assert point.step == pytest.approx(step)
        assert point.break_even == pytest.approx(step / STEP[0])
        assert point.pays is (None if tokens == 0 else TAU[tokens] > step / STEP[0])


def test_the_acceptance_length_of_several_loads_is_over_their_steps() -> None:
    """Ninety tokens in thirty steps, and ten in ten: a hundred in forty."""

    def load(tokens: int, tau: float | None) -> Loaded:
        return Loaded("chat", 1, None, 1.0, (Sample(0, 0.1, 0.01, 1.0, tokens),), tau, tokens, tokens)

    figures = pooled([load(90, 3.0), load(10, 1.0), load(500, None)])
    assert figures is not None and figures["acceptance_length"] == pytest.approx(2.5)
    nothing = pooled([load(500, None)])
    assert nothing is not None and nothing["acceptance_length"] is None


def test_slices_keep_the_kinds_of_traffic_apart(tuning: Tuning) -> None:
    rows = findings.slices(tuning)
    assert {(row["kind"], row["drafting"]) for row in rows} == {
        (kind, way) for kind in ("said", "words") for way in ("off", "ngram 2", "ngram 4", "ngram 8")
    }
    best = next(row for row in rows if (row["kind"], row["drafting"]) == ("said", "ngram 4"))
    assert (best["acceptance_length"], best["ms_per_token"]) == (2.0, 7.0)
    assert best["speedup"] == pytest.approx(10 / 7, abs=0.001) and best["pays"] is True


def test_the_recipe_holds_what_was_measured_and_is_lint_clean(tuning: Tuning) -> None:
    recipe = recipe_of(tuning, HOW, version=3)
    assert recipe is not None
    assert (recipe.id, recipe.version) == ("smollm2-135m-instruct/llamacpp-cpu-mine", 3)
    assert (recipe.speculation.method, recipe.speculation.tokens) == ("ngram", 4)
    assert [point.concurrency for point in recipe.capacity_curve] == [1, 2, 4]
    assert all(point.acceptance_length == 2.0 and point.itl_p50 == 0.007 for point in recipe.capacity_curve)
    tried = [one for one in recipe.drafters if one.method == "ngram"]
    assert [(one.tokens, one.max_useful_concurrency) for one in tried] == [(4, 4), (2, 4), (8, None)]
    assert tried[0].break_even[-1].acceptance_length == pytest.approx(1.4)
    who = recipe.provenance
    assert (who.status, who.when, who.machine, who.command) == ("measured", TODAY, HOW.machine, HOW.command)
    text = written(recipe, today=TODAY)
    assert lint([RecipeFile("mine.yaml", text, 0)], today=TODAY) == []
    assert Recipe.model_validate(yaml.safe_load(text)) == recipe


def test_a_later_tuning_takes_the_place_of_an_earlier_ones_drafters(tuning: Tuning) -> None:
    first = recipe_of(tuning, HOW)
    assert first is not None
    again = recipe_of(replace(tuning, job=replace(tuning.job, recipe=first)), HOW, version=2)
    assert again is not None and again.drafters == first.drafters
    assert len(first.drafters) == 3 + len(tuning.job.recipe.drafters)


def test_a_measured_drafter_keeps_what_it_was_trained_on() -> None:
    """Its modes and languages are what warnings rest upon when somebody names it."""
    bench = FakeBench(FakeClock(), lambda setting, at: 0.01, tau=lambda setting: 1.5 if drafted(setting) else None)
    work = job(engine="vllm", recipe="smollm2-135m-instruct/vllm-cpu", stages=("speculation",), methods=("dflash",))
    made = recipe_of(Tuner(work, bench, Quiet(), clock=bench.clock).run(), HOW)
    assert made is not None
    listed = [one for one in made.drafters if one.method == "dflash"]
    assert {one.tokens for one in listed} == {1, 3, 7}
    assert {one.trained_on.modes for one in listed} == {("non-thinking",)}


def test_the_winner_gives_the_measurement_as_its_reason(tuning: Tuning) -> None:
    plan = winner(tuning)
    assert plan.speculation.reason.startswith("measured: with speculation ngram 4 a token took 0.70 times")


def test_the_spec_names_the_recipe_instead_of_its_own_flags(tuning: Tuning) -> None:
    recipe = recipe_of(tuning, HOW)
    assert recipe is not None
    spec = {"model": "m", "flags": {"threads": 2, "verbosity": 3, "speculative.types": "ngram-mod"}, "drafter": "off"}
    assert tuned_spec(spec, recipe) == {"model": "m", "recipe": recipe.id, "flags": {"verbosity": 3}}


def test_the_report_says_what_won_and_what_each_kind_gains(tuning: Tuning) -> None:
    data = {"date": "2026-11-30", "machine": HOW.machine, **findings.as_dict(tuning)}
    assert json.loads(json.dumps(data)) == data
    text = report.markdown(data, plot="mine.png")
    assert "Best: speculation ngram 4. A token takes 0.70 times what it took with speculation off" in text
    assert "- said: ngram 4 decodes 1.43 times as fast as plain decoding." in text
    assert "| said | ngram 8 | 1.20 | 15.00 | 0.67 | 1.80 | no |" in text
    assert "![ITL and τ over concurrency for each way to draft](mine.png)" in text


def test_the_plot_is_drawn(tuning: Tuning, tmp_path: Path) -> None:
    plot.plot(findings.as_dict(tuning), tmp_path / "mine.png", title="mine")
    assert (tmp_path / "mine.png").read_bytes().startswith(b"\x89PNG")


def test_what_looked_better_and_was_not_confirmed_is_said_so(tuning: Tuning) -> None:
    said = report.verdict_words(findings.as_dict(replace(tuning, best=tuning.present)))
    assert said == (
        "Nothing is shown to be better than the present configuration (speculation off): speculation ngram 4 looked so,"
        " and was not confirmed."
    )


def test_every_way_to_draft_looks_different_and_the_break_even_is_in_the_legend(tuning: Tuning) -> None:
    ways = ["off", *(f"{method} block {size}" for method in ("dflash", "eagle3", "mtp") for size in (2, 4, 16))]
    point = next(point for point in findings.as_dict(tuning)["curves"] if point["drafting"] == "ngram 4")
    figure = plot.drawn({"curves": [{**point, "drafting": way} for way in ways]}, title="mine")
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["plain", *ways[1:], "break-even"]
    looks = {(line.get_color(), line.get_marker()) for line in figure.axes[0].lines}
    assert len(looks) == len(ways)


def test_blocks_come_by_their_length_not_by_their_letters(tuning: Tuning) -> None:
    trial = next(trial for trial in tuning.trials if trial.stage == CURVE and trial.setting.drafting == "ngram 4")
    made = [replace(trial, setting=replace(trial.setting, speculation=trial.setting.speculation.model_copy(
        update={"tokens": tokens}))) for tokens in (16, 2)]  # fmt: skip
    found = findings.curves(replace(tuning, trials=made))
    assert [*dict.fromkeys(point.setting.drafting for point in found)] == ["ngram 2", "ngram 16"]


def test_nothing_better_is_said_so() -> None:
    bench = FakeBench(FakeClock(), lambda setting, at: 0.01)
    found = Tuner(job(stages=("threads",)), bench, Quiet(), clock=bench.clock).run()
    data = {"date": "2026-11-30", "machine": HOW.machine, **findings.as_dict(found)}
    assert "Nothing that was tried is better than the present configuration" in report.markdown(data)
    recipe = recipe_of(found, HOW)
    assert recipe is not None and recipe.flags["threads"].value == 1
