"""What the target is asked, how its answers become rows, and that many at once say what one alone would."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from random import Random

import pytest
import torch

from outrider.drafting import dataset, generation, making, prompts, templates
from outrider.drafting.chat_format import ChatFormat
from outrider.drafting.slots import Given, Sampler, Script, SlotWriter, Text, Written
from outrider.drafting.target import Target
from outrider.errors import InvalidDataset

from . import small_target


@pytest.fixture(scope="module")
def target() -> Target:
    return small_target.target()


@pytest.fixture(scope="module")
def form(target: Target) -> ChatFormat:
    return ChatFormat(target.tokenizer, [1])


def _writer(target: Target, form: ChatFormat, *, slots: int = 3, seed: int = 0) -> SlotWriter:
    return generation.in_process(target, generation.Slots(slots, 256), stops=form.stops, seed=seed, top_p=True)


def test_texts_written_at_once_equal_those_written_alone(target: Target, form: ChatFormat) -> None:
    asked = [form.encode(text) for text in ("hello", "what is this?", "a", "bb cc dd", "xyz")]
    scripts = [Script(str(i), (Given(tokens), Written(Sampler(), 20))) for i, tokens in enumerate(asked)]
    found = {text.script.id: text.tokens for text in _writer(target, form).write(iter(scripts))}
    for number, tokens in enumerate(asked):
        ids = torch.tensor([tokens])
        alone = target.model.generate(  # type: ignore[operator]
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False
        )
        assert found[str(number)] == alone[0].tolist()


def test_a_conversation_goes_on_after_each_answer(target: Target, form: ChatFormat) -> None:
    script = prompts.conversation(form, "c", ["one", "two"], Sampler(), 10, system="Be brief.", note={})
    first = [part for part in script.parts if isinstance(part, Given)]
    assert form.decode(first[0].tokens).startswith("system\nBe brief.")
    assert first[1].tokens[: len(form.again)] == form.again
    (text,) = _writer(target, form).write(iter([script]))
    (start, end, _, ended) = text.spans[0]
    assert text.tokens[:start] == list(first[0].tokens)
    # A random target meets no end of turn within ten tokens: cut short, and nothing follows.
    assert not ended
    assert end == len(text.tokens)


def test_draws_of_temperature_and_top_p_follow_the_distribution(target: Target, form: ChatFormat) -> None:
    writer = SlotWriter(target, slots=4000, width=8, stops=[1], seed=0, top_p=True)
    logits = torch.full((4000, 259), -30.0)
    logits[:, 10:14] = torch.tensor([0.5, 0.25, 0.15, 0.1]).log()
    writer._sampling[:] = torch.tensor([1.0, 0.7, 0.0])
    drawn = writer._draw(logits)
    # 0.5 + 0.25 reach 0.7, so two tokens are left: 2/3 and 1/3; five standard errors allowed.
    assert set(drawn.tolist()) == {10, 11}
    assert abs(float((drawn == 10).float().mean()) - 2 / 3) < 0.04
    writer._sampling[:] = torch.tensor([2.0, 1.0, 0.5])
    # At temperature 2 the ratios to the best are 1, 0.71, 0.55, 0.45: the last is below a half.
    assert set(writer._draw(logits).tolist()) == {10, 11, 12}
    writer._sampling[:] = 0
    assert set(writer._draw(logits).tolist()) == {10}


def test_rows_keep_what_the_target_said_and_drop_broken_turns() -> None:
    user, answer = Written(Sampler(1.0), 9, answer=False), Written(Sampler(), 9)
    note = {"slice": "chat", "split": "train", "template": None}
    good = Text(Script("a", (), note), [5, 6, 7, 9, 1, 8, 8, 1], [(0, 5, user, True), (6, 8, answer, True)])
    other_stop = Text(Script("b", (), note), [5, 6, 7, 9, 0, 8, 8, 1], [(0, 5, user, True), (6, 8, answer, True)])
    empty = Text(Script("c", (), note), [5, 1, 8, 8, 1], [(0, 2, user, True), (3, 5, answer, True)])
    (row,) = generation.rows([good, other_stop, empty], user_stop=1)
    assert row.id == "a"
    assert row.answers == [(6, 8)]


def test_rows_that_ask_the_same_are_kept_once() -> None:
    rows = [
        dataset.Row(str(i), "chat", "train", None, [1, 2, *end], [(2, 4)]) for i, end in enumerate(([3, 4], [5, 6]))
    ]
    assert [row.id for row in dataset.unique(rows, set())] == ["0"]


def test_data_is_the_same_for_the_same_seed_and_is_read_back(target: Target, form: ChatFormat, tmp_path: Path) -> None:
    settings = making.DataSettings(
        chats=0, templates=(templates.SHIPPED,), per_template=1, held_out_per_template=1, templates_kept=8, limit=6
    )
    manifests = [
        making.make(tmp_path / name, _writer(target, form), form, settings, about={"target": {"digest": "d"}})
        for name in ("a", "b")
    ]
    assert manifests[0]["sha256"] == manifests[1]["sha256"]
    found = dataset.read(tmp_path / "a")
    assert len(found.rows) == 8
    assert found.manifest == manifests[0]
    for row in found.rows:
        ((start, end),) = row.answers
        assert end == len(row.tokens)
        assert row.tokens[start - len(form.bridge) : start] == list(form.bridge)


def test_self_prompting_frames_turns_as_the_template_does(form: ChatFormat) -> None:
    settings = prompts.SelfPrompting(openers=("Why",), turns=(0.0, 1.0), held_out=0.5)
    found = list(itertools.islice(prompts.self_prompted(form, settings, Sampler(), 50, seed=1), 40))
    kinds = [type(part).__name__ for part in found[0].parts]
    assert kinds == ["Given", "Written", "Given", "Written", "Given", "Written", "Given", "Written"]
    assert found[0].parts[0] == Given((*form.opening(), *form.encode("Why")))
    assert {script.note["split"] for script in found} == {"train", "held_out"}
    assert len({script.id for script in found}) == 40


def test_prompt_files_give_users_turns_and_name_bad_lines(form: ChatFormat, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    turns = [("user", "a"), ("assistant", "x"), ("user", "b")]
    good = json.dumps({"messages": [{"role": role, "content": text} for role, text in turns]})
    path.write_text(good + "\n")
    (script,) = prompts.from_file(path, form, Sampler(), 9)
    assert sum(isinstance(part, Written) for part in script.parts) == 2
    path.write_text(good + '\n{"messages": [{"role": "assistant", "content": "x"}]}\n')
    with pytest.raises(InvalidDataset, match=r"Line 2 of p\.jsonl is no conversation: message 1 .* of the user"):
        prompts.from_file(path, form, Sampler(), 9)


def test_the_shipped_templates_are_many_and_split_by_record() -> None:
    found = templates.read(templates.SHIPPED)
    assert len(found) >= 60
    assert {template.slice for template in found} == {"json", "code"}
    records = {split: {t.noun for t in found if t.split == split} for split in ("train", "held_out")}
    assert records["held_out"]
    assert not records["train"] & records["held_out"]
    random = Random(0)
    for template in found:
        text = template.fill(random)
        assert "{" + next(iter(template.fields)) not in text
        assert text != template.text


def test_equal_slots_hold_equal_values_and_unknown_types_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text("templates:\n- {id: t, text: 'Dear {who:person}, are you {who:person}? {n:count}'}\n")
    (template,) = templates.read(path)
    text = template.fill(Random(0))
    name = text.removeprefix("Dear ").partition(",")[0]
    assert f"are you {name}?" in text
    path.write_text("templates:\n- {id: t, text: '{who:elephant}'}\n")
    with pytest.raises(InvalidDataset, match="The template t has a slot 'elephant'"):
        templates.read(path)
