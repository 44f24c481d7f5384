"""The whole search with a fake clock and replicas of known speed: what it finds, and that it keeps its budget."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import BudgetTooSmall, InvalidInput, NoDrafter, ReplicaFailed
from outrider.loadgen.load import Load
from outrider.spec.objective import Objective
from outrider.tuning.settings import Setting
from outrider.tuning.trial import Loaded, Outcome
from outrider.tuning.tuner import CONFIRMATION, CURVE, Job, Tuner, Tuning
from tests.tuning.world import FakeBench, FakeClock, Quiet, job


def tuned(work: Job, bench: FakeBench) -> Tuning:
    return Tuner(work, bench, Quiet(), clock=bench.clock).run()


def even(setting: Setting, concurrency: int) -> float:
    return 0.01


def flag(setting: Setting, name: str, otherwise: object) -> object:
    return dict(setting.flags).get(name, otherwise)


def ngrams_pay(setting: Setting, concurrency: int) -> float:
    """As on a GPU: the longer the block, the better alone, and the worse with many."""
    drafted = setting.speculation.tokens or 0
    return 0.02 / (1 + drafted / 4) + 0.001 * drafted * (concurrency - 1)


def test_it_finds_the_block_that_is_best_at_the_workloads_concurrency() -> None:
    """Alone, a block of 8 is the best by far; at four in flight one of 2 is."""
    alone = tuned(job(stages=("speculation",), concurrency=1), _bench_at(1))
    together = tuned(job(stages=("speculation",), concurrency=4), _bench_at(4))
    assert (alone.best.drafting, together.best.drafting) == ("ngram 8", "ngram 2")


def _bench_at(concurrency: int) -> FakeBench:
    return FakeBench(FakeClock(), lambda setting, at: ngrams_pay(setting, concurrency))


def test_trials_are_open_loops_and_the_curve_goes_up_to_the_workloads_concurrency() -> None:
    bench = FakeBench(FakeClock(), even)
    found = tuned(job(stages=("threads",), concurrency=4), bench)
    loads = [load for trial in found.trials if trial.stage == "threads" for load in trial.outcome.loads]
    assert loads and all(load.concurrency is None and load.rate for load in loads)
    curve = [load for trial in found.trials if trial.stage == CURVE for load in trial.outcome.loads]
    assert {load.concurrency for load in curve} == {1, 2, 4}
    # By Little's law: four in flight of requests that took so long, at nine tenths of that.
    first = found.trials[0].outcome.loads[0]
    held = 4 / (sum(sample.e2e for sample in first.samples) / len(first.samples))
    assert found.rates["chat"] == pytest.approx(0.9 * held)


def test_all_settings_of_a_round_get_the_same_requests() -> None:
    bench = FakeBench(FakeClock(), even)
    found = tuned(job(stages=("speculation",)), bench)
    sent: dict[int, set[object]] = {}
    for trial, (_, loads) in zip(found.trials, bench.asked, strict=True):
        if trial.stage == "speculation":
            sent.setdefault(trial.rung, set()).add(tuple(load.arrivals for load in loads))
    assert sent and all(len(each) == 1 for each in sent.values())


def test_nothing_better_is_nothing_better() -> None:
    found = tuned(job(), FakeBench(FakeClock(), even))
    assert not found.improved
    assert found.comparisons and not any(one.won for one in found.comparisons)


def bad(setting: Setting, concurrency: int, gain: float) -> float:
    """Drafts of 8 cost much, shorter ones gain a little over plain decoding."""
    tokens = setting.speculation.tokens or 0
    return {0: 0.01, 8: 0.03}.get(tokens, 0.01 * (1 - gain))


@pytest.mark.parametrize(("gain", "best"), [(0.01, "off"), (0.1, "ngram 2")], ids=["within the noise", "better"])
def test_drafting_that_stands_gives_way_to_plain_decoding_unless_another_is_really_better(
    gain: float, best: str
) -> None:
    bench = FakeBench(FakeClock(), lambda setting, at: bad(setting, at, gain))
    work = job(stages=("speculation",), drafter="ngram")
    eight = work.plan.speculation.model_copy(update={"tokens": 8})
    work = replace(work, plan=work.plan.model_copy(update={"speculation": eight}))
    found = tuned(work, bench)
    assert (found.present.drafting, found.best.drafting) == ("ngram 8", best)
    rungs = {trial.rung for trial in found.trials if trial.stage == "speculation"}
    held = {(trial.rung, trial.setting.drafting) for trial in found.trials if trial.stage == "speculation"}
    assert {(rung, "off") for rung in rungs} <= held, "plain decoding is tried in every round"
    first, last = found.comparisons
    assert (first.stands.drafting, first.won) == ("off", best != "off")
    assert (last.stands.drafting, last.other.drafting, last.won) == ("ngram 8", best, True)


def test_stages_add_up_and_their_sum_is_confirmed() -> None:
    def pace(setting: Setting, concurrency: int) -> float:
        threads = flag(setting, "threads", 1)
        return 0.02 / {1: 1, 2: 1.5, 4: 2}[threads] / (2 if setting.speculation.method == "ngram" else 1)  # type: ignore[index]

    found = tuned(job(), FakeBench(FakeClock(), pace))
    assert flag(found.best, "threads", 1) == 4 and found.best.speculation.method == "ngram"
    assert found.verdict is not None and found.verdict.stage == CONFIRMATION
    assert found.verdict.verdict.ratio is not None
    assert found.verdict.verdict.ratio.value == pytest.approx(0.25, rel=0.01)


def test_the_best_of_several_is_held_alone_against_the_present_configuration() -> None:
    """The first round fits into the budget, and the last, which would leave one challenger, does not."""
    found = tuned(job(stages=("speculation",), concurrency=1, budget=740.0), _bench_at(1))
    assert [(one.stage, one.won) for one in found.comparisons] == [("speculation", True), (CONFIRMATION, True)]
    assert found.best.drafting == "ngram 8"
    assert {trial.setting for trial in found.trials if trial.stage == CONFIRMATION} == {found.present, found.best}


def test_the_best_of_several_that_cannot_be_confirmed_is_not_called_better() -> None:
    """The machine stands still for five minutes at the end of the first round."""

    class Halted(FakeBench):
        def run(self, setting: Setting, loads: Sequence[Load], limit: float) -> Outcome:
            found = super().run(setting, loads, limit)
            self.clock.now += 300.0 if len(self.asked) == 9 else 0.0
            return found

    bench = Halted(FakeClock(), lambda setting, at: ngrams_pay(setting, 1))
    found = tuned(job(stages=("speculation",), concurrency=1, budget=740.0), bench)
    assert [(one.stage, one.won) for one in found.comparisons] == [("speculation", True)]
    assert not found.improved
    assert not [trial for trial in found.trials if trial.stage == CONFIRMATION], "half a confirmation says nothing"
    assert any("one of several that may be better by chance" in line for line in found.unfinished)


def test_a_search_that_ends_with_one_challenger_needs_no_confirmation() -> None:
    found = tuned(job(stages=("speculation",), concurrency=1, budget=7200.0), _bench_at(1))
    assert found.best.drafting == "ngram 8" and not found.unfinished
    assert [one.stage for one in found.comparisons] == ["speculation"]


def test_a_setting_whose_replica_does_not_start_loses_with_its_reason() -> None:
    label = "speculation ngram 8"
    bench = FakeBench(FakeClock(), ngrams_pay, broken={label: "out of memory"})
    found = tuned(job(stages=("speculation",), concurrency=1), bench)
    lost = [trial for trial in found.trials if trial.setting.label == label]
    assert [trial.outcome.failure for trial in lost] == ["out of memory"], "it is tried once, and never again"
    assert found.best.drafting == "ngram 4"


def test_a_setting_that_crawls_is_ended_and_loses() -> None:
    def pace(setting: Setting, concurrency: int) -> float:
        return 1.0 if flag(setting, "threads", 1) == 4 else 0.01

    found = tuned(job(stages=("threads",)), FakeBench(FakeClock(), pace))
    lost = next(trial for trial in found.trials if trial.outcome.failure)
    assert lost.setting.label.startswith("threads=4") and "more than 4 times" in str(lost.outcome.failure)
    assert not found.improved


def test_a_setting_that_breaks_the_objective_does_not_win() -> None:
    """It has the better time a token, but its first token comes later than the user bears."""

    class LateFirst(FakeBench):
        def _loaded(self, setting: Setting, load: Load) -> Loaded:
            one = super()._loaded(setting, load)
            late = 3.0 if setting.speculation.method == "ngram" else 0.1
            samples = tuple(sample._replace(ttft=late) for sample in one.samples)
            return replace(one, samples=samples)

    bench = LateFirst(FakeClock(), ngrams_pay)
    assert tuned(job(stages=("speculation",), concurrency=1), bench).improved
    bench = LateFirst(FakeClock(), ngrams_pay)
    assert not tuned(job(stages=("speculation",), concurrency=1, objective=Objective(ttft=1.0)), bench).improved


def test_a_budget_too_small_for_one_trial() -> None:
    bench = FakeBench(FakeClock(), even)
    with pytest.raises(BudgetTooSmall, match="before the first trial"):
        tuned(job(budget=6.0), bench)
    assert bench.clock.now <= 1006.0


def test_the_present_configuration_must_carry_the_workload() -> None:
    bench = FakeBench(FakeClock(), even, broken={"speculation off": "a request failed: 500"})
    with pytest.raises(ReplicaFailed, match="a request failed: 500"):
        tuned(job(), bench)


def test_what_does_not_fit_is_not_begun_and_said() -> None:
    bench = FakeBench(FakeClock(), even)
    found = tuned(job(budget=60.0), bench)
    assert bench.clock.now <= 1060.0
    assert found.unfinished
    assert all(line.split(":")[0] in ("threads", "speculation", "batch_size", "slots", "curve", "confirmation")
               for line in found.unfinished)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    budget=st.floats(5, 2000),
    fast=st.floats(0.001, 0.05),
    slow=st.floats(0.001, 0.3),
    concurrency=st.integers(1, 8),
)
def test_the_budget_is_kept(budget: float, fast: float, slow: float, concurrency: int) -> None:
    """Whatever the speeds, and however wrong the estimates."""
    bench = FakeBench(FakeClock(), lambda setting, at: slow if setting.speculation.method == "ngram" else fast)
    with contextlib.suppress(BudgetTooSmall):
        tuned(job(budget=budget, concurrency=concurrency), bench)
    assert bench.clock.now - 1000.0 <= budget + 1e-6


def test_methods_that_cannot_be_tried_are_refused_before_anything_starts() -> None:
    bench = FakeBench(FakeClock(), even)
    with pytest.raises(InvalidInput, match="has no speculation 'magic'"):
        tuned(job(methods=("magic",)), bench)
    with pytest.raises(NoDrafter, match="mtp"):
        tuned(job(methods=("ngram", "mtp")), bench)
    with pytest.raises(NoDrafter, match="reads a GGUF file"):
        tuned(job(methods=("dflash",)), bench)
    assert bench.asked == []
