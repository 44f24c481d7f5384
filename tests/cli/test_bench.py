from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.loadgen.standin import Standin, serving

QUICK = ("-n", "4", "--warm-up", "0", "--input-tokens", "60", "--output-tokens", "8")


def test_a_url_is_measured_written_and_drawn(outrider: Run, tmp_path: Path) -> None:
    output, plot = tmp_path / "r.json", tmp_path / "r.svg"
    with serving(Standin(ttft=0.002, gap=0.001)) as standin:
        done = outrider("bench", standin.url, *QUICK, "-c", "1", "-c", "2", "-o", str(output), "--plot", str(plot))
    assert done.code == 0, done.err
    for words in ("workload", "concurrency 1: 4 requests", "concurrency 2: 8 requests", "TTFT", "output tokens/s"):
        assert words in done.out
    written = json.loads(output.read_text())
    assert {"at", "machine", "versions", "targets", "workload", "rows", "ratios", "requests"} <= set(written)
    assert len(written["requests"]) == 4 + 8
    assert "<svg" in plot.read_text()


def test_two_targets_give_ratios(outrider: Run) -> None:
    with serving(Standin(ttft=0.004, gap=0.001)) as first, serving(Standin(ttft=0.002, gap=0.001)) as second:
        done = outrider("bench", first.url, "--compare", second.url, *QUICK, "--json")
    found = json.loads(done.out)
    assert done.code == 0
    assert "requests" not in found
    label, other = (target["label"] for target in found["targets"])
    assert f"ttft_p50_{label}_over_{other}" in found["ratios"]["concurrency 1"]


def test_a_curve_for_a_recipe(outrider: Run) -> None:
    with serving(Standin(ttft=0.002, gap=0.001)) as standin:
        done = outrider("bench", standin.url, *QUICK, "-c", "1", "-c", "2", "--curve", "--json")
    curve = json.loads(done.out)["capacity_curve"]
    assert [point["concurrency"] for point in curve] == [1, 2]
    assert {"ttft_p50", "ttft_p95", "itl_p50", "itl_p95", "output_tps", "total_tps"} < set(curve[0])


def test_scaling_to_the_context_is_said(outrider: Run) -> None:
    with serving(Standin(ttft=0.0, gap=0.0, context=512)) as standin:
        done = outrider("bench", standin.url, "--profile", "agentic", "-n", "2", "--warm-up", "0")
    assert "scaled by 0.00969 from 50000 → 200 to fit a context of 512" in done.out


def test_open_loop_and_trace(outrider: Run, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text("".join(f'{{"at": {i / 50}, "input_tokens": 40, "output_tokens": 4}}\n' for i in range(5)))
    with serving(Standin(ttft=0.002, gap=0.001)) as standin:
        open_loop = outrider("bench", standin.url, *QUICK, "-r", "50", "--arrivals", "constant", "--json")
        replayed = outrider("bench", standin.url, "--trace", str(trace), "--json")
    assert json.loads(open_loop.out)["rows"][0]["load"] == "50 requests/s, constant"
    assert json.loads(replayed.out)["rows"][0]["requests"] == 5


def test_messages_of_a_trace_are_sent_as_they_are(outrider: Run, tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "日本語"}]
    asked = {"at": 0, "output_tokens": 4, "messages": messages, "affinity_key": "naïve"}
    trace = tmp_path / "t.jsonl"
    trace.write_text(json.dumps(asked) + "\n" + json.dumps({"at": 0.01, "input_tokens": 40, "output_tokens": 3}))
    with serving(Standin(ttft=0.002, gap=0.001, context=16)) as standin:
        too_long = outrider("bench", standin.url, "--trace", str(trace))
    with serving(Standin(ttft=0.002, gap=0.001)) as standin:
        done = outrider("bench", standin.url, "--trace", str(trace), "--warm-up", "1", "--json")
    assert "requests of 43 tokens" in too_long.err
    assert json.loads(done.out)["rows"][0]["errors"] == 0
    *_, warm_up, first, second = standin.answers
    assert first.body["messages"] == messages != warm_up.body["messages"]
    assert first.body["max_tokens"] == 4
    assert first.headers["outrider-affinity-key"].encode("latin-1").decode() == "naïve"
    assert [message["role"] for message in second.body["messages"]] == ["user"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["http://127.0.0.1:1"], 6, "does not answer"),
        (["ftp://host"], 2, "is no URL"),
        (["http://127.0.0.1:1", "--curve", "--rate", "2"], 2, "--curve does not go with"),
        (["http://127.0.0.1:1", "--output", "/nowhere/at/all.json"], 2, "cannot be written"),
        (["http://127.0.0.1:1", "--plot", "plot.txt"], 2, "is no plot"),
        (["http://127.0.0.1:1", "--trace", "absent.jsonl"], 3, "No trace absent.jsonl"),
        (["http://127.0.0.1:1", "--compare", "engine"], 2, "needs an endpoint's name"),
        (["http://127.0.0.1:1", "--input-tokens", "5", "--shared-tokens", "5"], 2, "leave nothing of 5"),
        (["small"], 6, "No controller answers"),
    ],
)
def test_what_cannot_be_measured(outrider: Run, words: list[str], code: int, said: str) -> None:
    done = outrider("bench", *words)
    assert (done.code, said in done.err) == (code, True), done.err
    assert "Traceback" not in done.err
