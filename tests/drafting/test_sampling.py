"""Penalties, filters, and the exactness of rejection sampling."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor

from outrider.drafting.sampling import Proposal, Sampler, accept, draw
from outrider.errors import InvalidInput


def chi_square(counts: Counter[int], expected: Tensor) -> float:
    """How far counts are from an expected distribution, in standard deviations of χ² for as many cells."""
    total, cells = counts.total(), expected.numel()
    distance = sum((counts[i] - total * e) ** 2 / (total * e) for i, e in enumerate(expected.tolist()))
    return float((distance - (cells - 1)) / (2 * (cells - 1)) ** 0.5)


def first_tokens(claimed: str, drawn: str, draws: int = 12_000) -> Counter[int]:
    """The first committed token, many times: drafts come from ``drawn``, and ``claimed`` is what is said of them."""
    generator = torch.Generator().manual_seed(0)
    logits, candidates = torch.tensor([[1.0, 0.0, -1.0, 0.5, -2.0], [0.0] * 5]), torch.tensor([[3, 1]])
    sparse = torch.tensor([[0.8, 0.2]])
    dense = torch.tensor([[0.1, 0.6, 0.1, 0.1, 0.1]])
    counts: Counter[int] = Counter()
    for _ in range(draws):
        if drawn == "sparse":
            tokens = candidates[0][draw(sparse, generator)]
        elif drawn == "dense":
            tokens = draw(dense, generator)
        else:
            tokens = torch.tensor([1])
        proposal = {
            "sparse": Proposal(tokens, sparse, candidates),
            "dense": Proposal(tokens, dense),
            "certain": Proposal(tokens),
        }[claimed]
        accepted, bonus = accept(proposal, logits, Sampler(temperature=0.7), generator)
        counts[int(tokens[0]) if accepted else bonus] += 1
    return counts


WANTED = Sampler(temperature=0.7).probabilities(torch.tensor([1.0, 0.0, -1.0, 0.5, -2.0]))


@pytest.mark.parametrize("kind", ["dense", "sparse", "certain"])
def test_what_is_committed_is_distributed_as_the_target(kind: str) -> None:
    assert chi_square(first_tokens(kind, kind), WANTED) < 4


def test_a_false_claim_about_the_draft_shows() -> None:
    assert chi_square(first_tokens("dense", "certain"), WANTED) > 10


def test_acceptance_is_the_overlap() -> None:
    generator = torch.Generator().manual_seed(1)
    drawn = torch.tensor([[0.1, 0.6, 0.1, 0.1, 0.1]])
    logits = torch.tensor([[1.0, 0.0, -1.0, 0.5, -2.0], [0.0] * 5])
    stood = [
        accept(Proposal(draw(drawn, generator), drawn), logits, Sampler(temperature=0.7), generator)[0]
        for _ in range(6000)
    ]
    expected = float(torch.minimum(drawn[0], WANTED).sum())
    assert abs(sum(stood) / len(stood) - expected) < 4 * (expected * (1 - expected) / len(stood)) ** 0.5


def test_greedy_takes_the_run_that_agrees_and_the_token_after_it() -> None:
    logits = torch.nn.functional.one_hot(torch.tensor([3, 1, 4, 2]), 6).float()
    for drafts, expected in (([3, 1, 4], (3, 2)), ([3, 1, 0], (2, 4)), ([0, 1, 4], (0, 3)), ([], (0, 3))):
        tokens = torch.tensor(drafts, dtype=torch.long)
        assert accept(Proposal(tokens), logits[: len(drafts) + 1], Sampler()) == expected


def test_filters() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
    assert torch.equal(Sampler().probabilities(logits), torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    assert (Sampler(temperature=1, top_k=2).probabilities(logits) > 0).tolist() == [[True, True, False, False]]
    nucleus = Sampler(temperature=1, top_p=0.7).probabilities(logits)  # 0.64 is less, 0.64 + 0.24 reaches it
    expected = torch.cat((logits[0, :2].softmax(-1), torch.zeros(2)))
    torch.testing.assert_close(nucleus[0], expected)


def test_penalties_follow_the_block_row_by_row() -> None:
    sampler = Sampler(repetition_penalty=2.0, presence_penalty=0.5, frequency_penalty=0.25)
    logits = torch.tensor([[4.0, -4.0, 4.0, 4.0]]).repeat(3, 1)
    got = sampler.penalise(logits, prompt=[0], answer=[1, 1], block=[2, 2])
    assert got.tolist() == [
        [2.0, -8.0 - 0.5 - 0.5, 4.0, 4.0],  # 0 in the prompt, 1 twice in the answer
        [2.0, -9.0, 2.0 - 0.75, 4.0],
        [2.0, -9.0, 2.0 - 1.0, 4.0],
    ]
    assert Sampler().penalise(logits, [0], [1], [2, 2]) is logits


@pytest.mark.parametrize(
    ("value", "said"),
    [({"temperature": -1.0}, "temperature -1.0"), ({"top_p": 0.0}, "top_p 0.0"), ({"top_k": -1}, "top_k -1")],
)
def test_values_out_of_range_are_refused(value: dict[str, float], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Sampler(**value)  # type: ignore[arg-type]
