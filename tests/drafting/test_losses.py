"""Losses against loops written out by hand, and against plain autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from outrider.drafting.losses import (
    LossSettings,
    block_loss,
    decay_weights,
    dpace_weights,
    eal,
    selector_loss,
    with_label,
)


def test_dpace_weights_are_those_of_a_hand_written_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.rand(20, 7, generator=generator)
    scored = torch.arange(7) < torch.randint(0, 8, (20, 1), generator=generator)
    alpha = 0.3
    expected = torch.zeros(20, 7)
    for block in range(20):
        reached, prefixes = 1.0, []
        for slot in range(7):
            reached *= (1 - alpha) * float(probabilities[block, slot]) + alpha if scored[block, slot] else 1.0
            prefixes.append(reached)
        for slot in range(7):
            if scored[block, slot]:
                expected[block, slot] = sum(prefixes[k] for k in range(slot, 7) if scored[block, k])
    torch.testing.assert_close(dpace_weights(probabilities, scored, alpha), expected)


def test_dpace_without_smoothing_is_the_gradient_of_the_expected_accepted_length() -> None:
    logs = torch.log(torch.rand(5, 7, generator=torch.Generator().manual_seed(1))).requires_grad_()
    accepted = logs.exp().cumprod(-1).sum()
    (slope,) = torch.autograd.grad(accepted, logs)
    torch.testing.assert_close(dpace_weights(logs.exp(), torch.ones(5, 7, dtype=torch.bool), 0.0), slope)


def _problem() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(2)
    hidden = torch.randn(11, 7, 16, generator=generator)
    return {
        "hidden": hidden,
        "head": torch.randn(16, 50, generator=generator),
        "labels": torch.randint(0, 50, (11, 7), generator=generator),
        "scored": torch.arange(7) < torch.randint(1, 8, (11, 1), generator=generator),
        "teacher": torch.randn(11, 7, 16, generator=generator),
    }


@pytest.mark.parametrize("objective", ["ce", "kd", "dpace"])
@pytest.mark.parametrize("chunk", [3, 256])
def test_chunks_give_the_loss_and_the_gradient_of_the_whole(objective: Any, chunk: int) -> None:
    p = _problem()
    settings = LossSettings(objective=objective, chunk_blocks=chunk)
    hidden = p["hidden"].clone().requires_grad_()
    teacher = p["teacher"] if objective == "kd" else None
    found = block_loss(hidden, lambda rows: rows @ p["head"], p["labels"], p["scored"], settings, teacher=teacher)
    found.loss.backward()

    plain = p["hidden"].clone().requires_grad_()
    logs = (plain @ p["head"]).log_softmax(-1)
    of_label = logs.gather(-1, p["labels"][..., None])[..., 0]
    if objective == "dpace":
        weights = dpace_weights(of_label.exp(), p["scored"], settings.alpha)
        expected = -(weights * of_label).sum() / p["scored"].any(-1).sum()
    else:
        weights = decay_weights(p["scored"], settings.gamma)
        agreed = of_label if teacher is None else ((teacher @ p["head"]).softmax(-1) * logs).sum(-1)
        expected = -(weights * agreed).sum() / weights.sum()
    expected.backward()
    torch.testing.assert_close(found.loss, expected)
    torch.testing.assert_close(hidden.grad, plain.grad)
    assert torch.equal(found.correct, (logs.argmax(-1) == p["labels"]) & p["scored"])


def test_candidates_are_the_most_likely_tokens() -> None:
    p = _problem()
    settings = LossSettings(chunk_blocks=4)
    hidden = p["hidden"].requires_grad_()
    found = block_loss(hidden, lambda r: r @ p["head"], p["labels"], p["scored"], settings, candidates=5)
    assert found.candidates is not None
    assert torch.equal(found.candidates, (p["hidden"] @ p["head"]).topk(5).indices)


def test_decay_weights_fall_by_gamma_from_slot_to_slot() -> None:
    weights = decay_weights(torch.tensor([[True, True, False]]), 4.0)
    torch.testing.assert_close(weights, torch.tensor([[1.0, 0.7788008, 0.0]]))


def test_eal_counts_the_first_run_and_the_bonus_token() -> None:
    correct = torch.tensor([[True, True, False, True], [False, True, True, True], [True, False, False, False]])
    scored = torch.ones(3, 4, dtype=torch.bool)
    scored[2] = False  # an unused block
    assert float(eal(correct, scored)) == 1 + (2 + 0) / 2


def test_a_missing_label_takes_the_last_place() -> None:
    shown, place = with_label(torch.tensor([[[5, 6, 7], [5, 6, 7]]]), torch.tensor([[6, 9]]))
    assert shown.tolist() == [[[5, 6, 7], [5, 6, 9]]]
    assert place.tolist() == [[1, 2]]


def test_selector_loss_is_cross_entropy_over_the_candidates() -> None:
    scores = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(3))
    choice, scored = torch.tensor([[0, 1, 2], [3, 0, 1]]), torch.tensor([[True, True, False], [False, False, False]])
    expected = torch.nn.functional.cross_entropy(scores[0, :2], choice[0, :2], reduction="sum")
    torch.testing.assert_close(selector_loss(scores, choice, scored), expected)
