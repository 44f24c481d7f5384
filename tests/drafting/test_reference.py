"""The reference loop says what the target says: in every token, and in distribution."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from outrider.drafting.evaluation import Record, measure, measure_lookup
from outrider.drafting.proposers import DraftProposer, PromptLookup, Proposer
from outrider.drafting.reference import Generation, generate
from outrider.drafting.sampling import Proposal, Sampler
from outrider.drafting.target import Target
from outrider.errors import InvalidInput

from . import tiny
from .test_sampling import chi_square

PROMPT = [5, 17, 3, 40, 22, 17, 3]


class Knowing(DraftProposer):
    """Drafts for real, then proposes what it was told instead, wrong at four places in eleven: blocks stand in part."""

    def __init__(self, drafter: Any, target: Target, answer: Sequence[int], start: int) -> None:
        super().__init__(drafter, target)
        self._answer, self._start = list(answer), start

    def propose(self, anchor: int, slots: int, sampler: Sampler, generator: torch.Generator | None) -> Proposal:
        super().propose(anchor, slots, sampler, generator)
        assert self._context is not None
        place = self._context.length - self._start + 1
        known = (self._answer[place : place + slots] + [0] * slots)[:slots]
        return Proposal(
            torch.tensor([(t + 1) % 60 if (place + i) % 11 in (0, 1, 4, 9) else t for i, t in enumerate(known)]).long()
        )

    @property
    def context(self) -> Tensor:
        """The keys that it keeps."""
        assert self._context is not None
        return self._context.keys


def plain(target: Target, prompt: list[int], count: int) -> list[int]:
    """Greedy decoding by transformers itself."""
    model: Any = target.model
    made = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        do_sample=False,
        max_new_tokens=count,
    )
    tokens: list[int] = made[0, len(prompt) :].tolist()
    return tokens


def proposers(target: Target) -> dict[str, Proposer | None]:
    """One of each kind, for targets of 64 tokens."""
    return {
        "none": None,
        "dflash": DraftProposer(tiny.drafter(), target),
        "dflash 2": DraftProposer(tiny.drafter(tiny.config(**tiny.DFLASH2)), target),
        "n-gram": PromptLookup(block_size=5, longest=3, shortest=1),
    }


@pytest.mark.parametrize("kind", ["qwen3", "llama", "hybrid"])
def test_greedy_answers_are_the_targets_own(kind: str) -> None:
    target = tiny.target(kind)
    expected = plain(target, PROMPT, 40)
    assert len(set(expected)) > 5
    for name, proposer in proposers(target).items():
        assert generate(target, PROMPT, proposer, max_tokens=40).tokens == expected, name
    knowing = Knowing(tiny.drafter(), target, expected, len(PROMPT))
    answer = generate(target, PROMPT, knowing, max_tokens=40)
    assert answer.tokens == expected
    assert answer.finish == "length"
    assert answer.acceptance_length > 2
    assert {step.accepted for step in answer.steps} == {0, 1, 2, 3}
    assert sum(step.committed for step in answer.steps) == 39
    assert all(step.committed <= step.accepted + 1 <= step.proposed + 1 <= 4 for step in answer.steps)


def test_the_drafters_context_is_that_of_the_whole_text() -> None:
    target = tiny.target()
    expected = plain(target, PROMPT, 30)
    knowing = Knowing(tiny.drafter(), target, expected, len(PROMPT))
    answer = generate(target, PROMPT, knowing, max_tokens=30)
    text = torch.tensor([PROMPT + answer.tokens[: knowing.context.shape[3] - len(PROMPT)]])
    positions = torch.arange(text.shape[1])[None]
    whole = knowing.drafter.project_context(target.states(text).features, positions)
    torch.testing.assert_close(knowing.context, whole.keys, atol=1e-4, rtol=1e-4)


def test_the_last_block_shrinks_to_what_is_left() -> None:
    target = tiny.target()
    expected = plain(target, PROMPT, 30)
    for count in range(1, 12):
        knowing = Knowing(tiny.drafter(), target, expected, len(PROMPT))
        answer = generate(target, PROMPT, knowing, max_tokens=count)
        assert answer.tokens == expected[:count]
        assert answer.finish == "length"
        made = 1 + sum(step.committed for step in answer.steps)
        assert made == count
        assert all(step.proposed <= 3 for step in answer.steps)


def test_an_answer_ends_at_an_end_token_inside_a_block() -> None:
    target = tiny.target()
    expected = plain(target, PROMPT, 30)
    seen: set[int] = set()
    inside = 0
    for place, token in enumerate(expected):
        if token in seen:
            continue
        seen.add(token)
        knowing = Knowing(tiny.drafter(), target, expected, len(PROMPT))
        answer = generate(target, PROMPT, knowing, max_tokens=30, eos={token})
        assert (answer.tokens, answer.finish) == (expected[: place + 1], "stop")
        inside += bool(answer.steps) and answer.steps[-1].committed <= answer.steps[-1].accepted
    assert inside


@pytest.fixture(scope="module")
def spelling() -> Any:
    """A tokenizer with a two-letter word for each of 64 tokens."""
    import tokenizers
    import transformers

    words = {chr(97 + i // 8) + chr(65 + i % 8): i for i in range(64)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="aA"))
    made.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


def test_an_answer_ends_at_a_stop_string_across_tokens(spelling: Any) -> None:
    target = tiny.target()
    expected = plain(target, PROMPT, 30)
    words = [spelling.decode([token]) for token in expected]
    with pytest.raises(InvalidInput, match="tokenizer"):
        generate(target, PROMPT, max_tokens=3, stop=["x"])
    target.tokenizer = spelling
    ends = set()
    for place in range(1, 20):
        stop = words[place][1] + words[place + 1][0]  # the end of one token and the start of the next
        text = "".join(words)
        cut = text.find(stop)
        knowing = Knowing(tiny.drafter(), target, expected, len(PROMPT))
        answer = generate(target, PROMPT, knowing, max_tokens=30, stop=["nowhere", stop])
        assert (answer.text, answer.finish) == (text[:cut], "stop")
        assert len(answer.tokens) == (cut + len(stop) + 1) // 2
        ends.add(answer.steps[-1].committed)
    assert len(ends) > 1


def penalised(target: Target, sampler: Sampler, count: int) -> list[int]:
    """Greedy decoding with penalties, a whole pass a token."""
    answer: list[int] = []
    for _ in range(count):
        logits = target.forward(torch.tensor([PROMPT + answer])).logits[0, -1].clone()
        for token in set(PROMPT + answer):
            logits[token] *= 1 / sampler.repetition_penalty if logits[token] > 0 else sampler.repetition_penalty
        for token in set(answer):
            logits[token] -= sampler.presence_penalty + sampler.frequency_penalty * answer.count(token)
        answer.append(int(logits.argmax()))
    return answer


@pytest.mark.parametrize(
    "sampler",
    [
        Sampler(repetition_penalty=1.3),
        Sampler(presence_penalty=1.5),
        Sampler(frequency_penalty=0.7),
        Sampler(repetition_penalty=1.1, presence_penalty=0.5, frequency_penalty=-0.4),
    ],
)
def test_penalties_inside_a_block_are_those_of_token_by_token(sampler: Sampler) -> None:
    target = tiny.target()
    expected = penalised(target, sampler, 24)
    assert expected != plain(target, PROMPT, 24)
    knowing = Knowing(tiny.drafter(), target, expected, len(PROMPT))
    answer = generate(target, PROMPT, knowing, max_tokens=24, sampler=sampler)
    assert answer.tokens == expected
    assert answer.acceptance_length > 2
    assert generate(target, PROMPT, max_tokens=24, sampler=sampler).tokens == expected


def small(kind: str) -> tuple[Target, Proposer | None]:
    """A target of five tokens, and a proposer."""
    target = tiny.target(vocabulary=5, seed=4)
    shape = {"vocab_size": 5, "mask_token_id": 4, "block_size": 3}
    made: dict[str, Callable[[], Proposer | None]] = {
        "none": lambda: None,
        "dflash": lambda: DraftProposer(tiny.drafter(tiny.config(**shape)), target),
        "dflash, best": lambda: DraftProposer(tiny.drafter(tiny.config(**shape)), target, sample=False),
        "dflash 2": lambda: DraftProposer(
            tiny.drafter(tiny.config(**shape, **(tiny.DFLASH2 | {"selector_top_k": 3}))), target
        ),
        "n-gram": lambda: PromptLookup(block_size=3, longest=2, shortest=1),
    }
    return target, made[kind]()


@pytest.mark.parametrize("kind", ["dflash", "dflash, best", "dflash 2", "n-gram"])
def test_sampled_answers_are_distributed_as_the_targets(kind: str) -> None:
    target, proposer = small(kind)
    sampler = Sampler(temperature=3.0)
    prompt, count, draws = [1, 2, 1, 3], 3, 1000
    expected = torch.empty(5**count)
    for index, answer in enumerate(itertools.product(range(5), repeat=count)):
        logits = target.forward(torch.tensor([prompt + list(answer)])).logits[0, len(prompt) - 1 : -1]
        chosen = sampler.probabilities(logits).gather(-1, torch.tensor(answer)[:, None])
        expected[index] = chosen.prod()
    generator = torch.Generator().manual_seed(0)
    counts: Counter[int] = Counter()
    stood = 0
    for _ in range(draws):
        made = generate(target, prompt, proposer, max_tokens=count, sampler=sampler, generator=generator)
        counts[made.tokens[0] * 25 + made.tokens[1] * 5 + made.tokens[2]] += 1
        stood += sum(step.accepted for step in made.steps)
    rare = expected < 4 / draws  # χ² needs a few expected in each cell: the rare ones are one cell
    cells = torch.cat((expected[~rare], expected[rare].sum()[None]))
    merged: Counter[int] = Counter()
    for place, kept in enumerate((~rare).nonzero()[:, 0].tolist()):
        merged[place] = counts[kept]
    merged[len(cells) - 1] = draws - merged.total()
    assert chi_square(merged, cells) < 4
    assert 0.1 < stood / draws < 1.0


def test_offline_acceptance_is_that_of_the_loop() -> None:
    target, proposer = small("dflash")
    assert isinstance(proposer, DraftProposer)
    records, steps = [], []
    for seed in range(6):
        prompt = torch.randint(5, (3 + seed,), generator=torch.Generator().manual_seed(seed)).tolist()
        answer = generate(target, prompt, proposer, max_tokens=20 + seed)
        records.append(Record(tuple(prompt), tuple(answer.tokens)))
        steps.append(answer)
    measured = measure(proposer.drafter, target, records, batch_size=4)
    assert [runs(answer) for answer in steps] == [[int(r) for r in one.stood.sum(1)] for one in measured.records]
    assert measured.tau() > 1.2


def test_offline_acceptance_of_dflash_2_and_n_grams_is_that_of_the_loop() -> None:
    target, proposer = small("dflash 2")
    assert isinstance(proposer, DraftProposer)
    lookup = PromptLookup(block_size=4, longest=2, shortest=1)
    for seed in range(4):
        prompt = torch.randint(5, (5,), generator=torch.Generator().manual_seed(seed)).tolist()
        answer = generate(target, prompt, proposer, max_tokens=24)
        records = [Record(tuple(prompt), tuple(answer.tokens))]
        measured = measure(proposer.drafter, target, records)
        assert runs(answer) == [int(r) for r in measured.records[0].stood.sum(1)]
        by_text = generate(target, prompt, lookup, max_tokens=24)
        measured = measure_lookup(lookup, records)
        assert runs(by_text, 4) == [int(r) for r in measured.records[0].stood.sum(1)]


def runs(answer: Generation, size: int = 3) -> list[int]:
    """Accepted drafts of each step that the answer's end did not cut short."""
    place, found = 0, []
    for step in answer.steps:
        if place + size < len(answer.tokens):
            found.append(step.accepted)
        place += step.committed
    return found


def test_nothing_to_answer_is_refused() -> None:
    target = tiny.target()
    for prompt, count in (([], 4), ([1], 0)):
        with pytest.raises(InvalidInput, match="Nothing to answer"):
            generate(target, prompt, max_tokens=count)
