"""Workloads: profiles, traces and files that mix kinds, and what is wrong with the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.errors import InvalidWorkload
from outrider.tuning.workload import Prompts, Traffic, read_workload

PROMPTS = Prompts(seed=1, context=4096)


def written(directory: Path, text: str, *lines: dict[str, object]) -> str:
    (directory / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines or ({"at": 0},)))
    file = directory / "w.yaml"
    file.write_text(text)
    return str(file)


def line(at: float, text: str = "hello") -> dict[str, object]:
    return {"at": at, "output_tokens": 4, "messages": [{"role": "user", "content": text}]}


def read(text: str, *, concurrency: int | None = None, rate: float | None = None) -> Traffic:
    return read_workload(text, concurrency=concurrency, usual=3, rate=rate)


def test_a_profile_at_the_endpoints_concurrency_or_rate() -> None:
    found = read("chat", rate=2.0)
    assert (found.kinds[0].name, found.concurrency, found.rate, found.replayed) == ("chat", 3, 2.0, False)
    assert (read("chat", concurrency=8, rate=2.0).concurrency, read("chat", concurrency=8, rate=2.0).rate) == (8, None)


def test_a_trace_alone_keeps_its_own_times_unless_a_concurrency_is_said(tmp_path: Path) -> None:
    written(tmp_path, "", line(0.0), line(2.0))
    assert read(str(tmp_path / "t.jsonl")).replayed
    paced = read(str(tmp_path / "t.jsonl"), concurrency=2)
    assert (paced.replayed, paced.concurrency) == (False, 2)


def test_a_trace_begins_anew_a_mean_gap_after_its_end(tmp_path: Path) -> None:
    written(tmp_path, "", line(1.0, "a"), line(3.0, "b"))
    [kind] = read(str(tmp_path / "t.jsonl")).kinds
    found = kind.requests(5, PROMPTS)
    assert [one.at for one in found] == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert [one.messages[0]["content"] for one in found if one.messages] == ["a", "b", "a", "b", "a"]
    assert kind.requests(3, PROMPTS, skip=2) == found[2:]


def test_a_file_mixes_kinds_by_share(tmp_path: Path) -> None:
    text = "concurrency: 4\nkinds:\n  a: {trace: t.jsonl, share: 3}\n  b: {input_tokens: 9, output_tokens: 2}\n"
    found = read(written(tmp_path, text, line(0.0)))
    assert {kind.name: kind.share for kind in found.kinds} == {"a": 0.75, "b": 0.25}
    assert (found.concurrency, found.replayed) == (4, False)
    assert found.counts(16) == {"a": 12, "b": 4}
    assert found.counts(2) == {"a": 2, "b": 2}, "each kind is measured"


def test_the_same_seed_gives_the_same_requests() -> None:
    [kind] = read("chat").kinds
    assert kind.requests(5, PROMPTS) == kind.requests(5, PROMPTS) != kind.requests(5, Prompts(2, 4096))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kinds: {}", "kinds"),
        ("kinds: {a: {}}", "one of profile, trace, or input_tokens"),
        ("kinds: {a: {input_tokens: 9}}", "with output_tokens"),
        ("kinds: {a: {profile: chat, trace: t.jsonl}}", "one of profile"),
        ("kinds: {a: {profile: chatt}}", "agentic"),
        ("kinds: {A B: {profile: chat}}", "kinds"),
        ("kinds: {a: {profile: chat, share: 0}}", "share"),
        ("rate: -1\nkinds: {a: {profile: chat}}", "rate"),
        ("kindz: {}", "did you mean 'kinds'"),
        ("kinds: [", "line"),
        ("a: 1\n---\nb: 1", "2 YAML documents"),
        ("", "0 YAML documents"),
    ],
)
def test_a_bad_file_says_which_field(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkload) as refused:
        read(written(tmp_path, text))
    assert says in str(refused.value)
