"""Expected acceptance of sampled answers, intervals and pairing."""

from __future__ import annotations

import math

import pytest
import torch

from outrider.drafting.acceptance import Measurement, RecordAcceptance, ratio
from outrider.drafting.evaluation import Record, expected_acceptance, measure
from outrider.drafting.proposers import DraftProposer
from outrider.drafting.reference import generate
from outrider.drafting.sampling import Sampler, draw
from outrider.errors import InvalidInput

from . import tiny


def test_expected_acceptance_is_unbiased() -> None:
    """Mean over answers drawn from p, against the exact sum over all answers."""
    generator = torch.Generator().manual_seed(0)
    wanted = torch.rand(1, 3, 4, generator=generator).softmax(-1)
    drawn = (2 * torch.rand(1, 3, 4, generator=generator)).softmax(-1)
    exact = torch.minimum(wanted, drawn).sum(-1).cumprod(1)[0]  # slots are independent here
    answers = draw(wanted.expand(4000, -1, -1), generator)
    stood, chance = expected_acceptance(wanted.expand(4000, -1, -1), drawn.expand(4000, -1, -1), answers)
    error = stood.std(0) / math.sqrt(4000)
    assert ((stood.mean(0) - exact).abs() <= 4 * error + 1e-6).all()
    assert (chance <= 1).all()


@pytest.mark.parametrize("shape", [{}, tiny.DFLASH2 | {"selector_top_k": 3}], ids=["dflash", "dflash 2"])
def test_sampled_acceptance_offline_is_that_of_the_loop(shape: dict[str, int]) -> None:
    target = tiny.target(vocabulary=5, seed=4)
    drafter = tiny.drafter(tiny.config(vocab_size=5, mask_token_id=4, **shape))
    sampler, generator = Sampler(temperature=3.0), torch.Generator().manual_seed(0)
    answers = [
        generate(target, [1, 2, 3], DraftProposer(drafter, target), max_tokens=90, sampler=sampler, generator=generator)
        for _ in range(8)
    ]
    records = [Record((1, 2, 3), tuple(answer.tokens)) for answer in answers]
    done: list[int] = []
    measured = measure(drafter, target, records, sampler=sampler, batch_size=3, progress=done.append).slices()[-1]
    assert done == [3, 6, 8]
    steps = torch.tensor([step.accepted + 1.0 for answer in answers for step in answer.steps[:-2]])
    error = 2 * steps.std() / math.sqrt(len(steps))  # of both: they are of the same answers, by other chances
    assert abs(measured.tau.value - steps.mean()) < 3 * error
    assert 1.3 < measured.tau.value < 3.5
    best = measure(drafter, target, records, sampler=sampler, sample=False)
    assert best.tau() != measured.tau.value
    assert 1 < best.tau() < 4


def test_batches_change_nothing() -> None:
    target = tiny.target()
    drafter = tiny.drafter(tiny.config(layer_types=("sliding_attention", "full_attention"), sliding_window=6))
    records = [
        Record((1, 2, *range(seed)), tuple(generate(target, [1, 2, *range(seed)], max_tokens=12 + 3 * seed).tokens))
        for seed in range(5)
    ]
    sets = [measure(drafter, target, records, batch_size=size) for size in (1, 2, 5)]
    for other in sets[1:]:
        for one, two in zip(sets[0].records, other.records, strict=True):
            assert torch.equal(one.stood, two.stood)


def measurement(*records: tuple[str, list[int]], slots: int = 3) -> Measurement:
    """A greedy measurement with these runs of drafts that stood."""
    rows = [(name, torch.tensor(runs, dtype=torch.long)) for name, runs in records]
    return Measurement(
        slots + 1, [RecordAcceptance(name, (torch.arange(slots) < runs[:, None]).float()) for name, runs in rows]
    )


def test_slices_positions_and_table() -> None:
    found = measurement(("chat", [0, 1]), ("json", [3, 3, 3]), ("json", [3]), ("short", []))
    chat, json, whole = found.slices()
    assert (chat.slice, chat.tau.value, chat.blocks) == ("chat", 1.5, 2)
    assert [position.value for position in chat.positions] == [0.5, 0.0, 0.0]
    assert (json.tau.value, json.tau.low, json.tau.high, json.records) == (4.0, 4.0, 4.0, 2)
    assert whole.tau.value == found.tau() == pytest.approx(1 + 13 / 6)
    assert whole.tau.low < whole.tau.value < whole.tau.high
    assert math.isnan(found.tau("short"))
    assert found.emit()["slices"][0]["tau"]["value"] == 1.5
    lines = found.table().splitlines()
    assert lines[0].split() == ["slice", "records", "steps", "τ", "95", "%", "1", "2", "3"]
    assert lines[1].split()[:4] == ["chat", "1", "2", "1.50"]
    assert len({len(line) for line in lines}) == 1


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    generator = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(100):
        runs = (torch.rand(60, 12, 3, generator=generator) < 0.6).long().cumprod(-1).sum(-1)
        tau = measurement(*[("all", row.tolist()) for row in runs]).slices()[-1].tau
        held += tau.low <= 1 + 0.6 + 0.36 + 0.216 <= tau.high
    assert 88 <= held <= 100


def test_a_paired_ratio_is_narrower_than_the_drafters_are_wide() -> None:
    better = measurement(*[("all", [run % 3 + 1] * 4) for run in range(30)])
    worse = measurement(*[("all", [run % 3] * 4) for run in range(30)])
    found = ratio(better, worse)
    assert found.value == pytest.approx(1.5)
    assert 1.3 < found.low < found.value < found.high < 1.7
    with pytest.raises(ValueError, match="different records"):
        ratio(better, measurement(("all", [1])))


def test_nothing_to_measure_is_refused() -> None:
    target, drafter = tiny.target(), tiny.drafter()
    with pytest.raises(InvalidInput, match="Nothing can be measured"):
        measure(drafter, target, [])
    with pytest.raises(InvalidInput, match="Nothing can be measured"):
        measure(drafter, target, [Record((1,), (2,))], sampler=Sampler(presence_penalty=1.0))
