"""What a tokenizer's files say, and how two differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from outrider.models.tokenizer import differences, read_tokenizer

TEMPLATE = "{% if enable_thinking %}<think>{% endif %}{{ messages }}"


def write(directory: Path, *, template: str = TEMPLATE, eos: str = "<end>") -> Path:
    directory.mkdir()
    added = [{"id": 3, "content": "<end>"}, {"id": 4, "content": "<|MASK|>"}]
    (directory / "tokenizer.json").write_text(
        json.dumps({"model": {"vocab": {"a": 0, "b": 1, "c": 2}}, "added_tokens": added})
    )
    config = {"eos_token": {"content": eos}, "pad_token": "c", "chat_template": template}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "generation_config.json").write_text(json.dumps({"bos_token_id": 0, "eos_token_id": [1, 3]}))
    return directory


def test_a_directory(tmp_path: Path) -> None:
    facts = read_tokenizer(write(tmp_path / "m"))
    assert facts is not None
    assert facts.size == 5 and facts.ids == frozenset(range(5))
    assert facts.special == {"bos": 0, "eos": 3, "pad": 2}, "the tokenizer's own word counts before generation_config's"
    assert facts.named == {3: "<end>", 4: "<|MASK|>"}
    assert facts.modes == ("thinking", "non-thinking")


def test_a_template_of_its_own_file_counts_and_its_last_line_break_does_not(tmp_path: Path) -> None:
    directory = write(tmp_path / "m", template="{{ other }}")
    before = read_tokenizer(directory)
    (directory / "chat_template.jinja").write_text("{{ other }}\n")
    after = read_tokenizer(directory)
    assert before is not None and after is not None and before.template == after.template
    assert after.modes == ("non-thinking",)


def test_every_difference_is_named(tmp_path: Path) -> None:
    base, own = read_tokenizer(write(tmp_path / "a")), read_tokenizer(write(tmp_path / "b", template="x", eos="b"))
    assert base is not None and own is not None
    lines = differences(base, replace(own, size=6, named={3: "<stop>"}))
    assert lines[:3] == [
        "tokens of the tokenizer: 6, the catalog model's has 5",
        "eos token: id 1, the catalog model's is 3",
        "token 3: '<stop>', the catalog model's is '<end>'",
    ]
    assert lines[3].startswith("chat template: SHA-256 ") and len(lines) == 4
    assert differences(base, base) == []


def test_a_vocabulary_of_the_same_size_with_other_texts_is_another(tmp_path: Path) -> None:
    base = read_tokenizer(write(tmp_path / "a"))
    for name, vocabulary in (("swapped", {"a": 1, "b": 0, "c": 2}), ("other", {"a": 0, "x": 1, "c": 2})):
        directory = write(tmp_path / name)
        data = json.loads((directory / "tokenizer.json").read_text())
        (directory / "tokenizer.json").write_text(json.dumps({**data, "model": {"vocab": vocabulary}}))
        own = read_tokenizer(directory)
        assert base is not None and own is not None
        [line] = differences(base, own)
        assert line.startswith("vocabulary: SHA-256 ") and line.endswith("ids stand for other texts")


def test_added_tokens_may_be_listed_among_the_others_or_apart(tmp_path: Path) -> None:
    base, directory = read_tokenizer(write(tmp_path / "a")), write(tmp_path / "b")
    data = json.loads((directory / "tokenizer.json").read_text())
    data["model"]["vocab"] |= {"<end>": 3, "<|MASK|>": 4}
    (directory / "tokenizer.json").write_text(json.dumps(data))
    own = read_tokenizer(directory)
    assert base is not None and own is not None and differences(base, own) == []


def test_a_gguf_tells_no_used_rows_from_unused(model: Path) -> None:
    facts = read_tokenizer(model)
    assert facts is not None
    assert facts.size == 49152 and facts.ids is None and facts.template is not None
    assert facts.special["eos"] == 2


def test_none_where_there_is_none(tmp_path: Path) -> None:
    assert read_tokenizer(tmp_path) is None
