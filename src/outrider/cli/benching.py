"""A benchmark before people's eyes: what it does, how far it is, what came out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from outrider.cli.terminal import console, say, say_pairs, show_table
from outrider.cli.text import span

if TYPE_CHECKING:
    from outrider.loadgen.benchmark import Plan, Progress
    from outrider.loadgen.load import Load
    from outrider.loadgen.measurement import Measurement

_NAMES = {"ttft": "TTFT", "itl": "ITL", "e2e": "whole request", "event_gap": "event gap"}


def show_workload(plan: Plan) -> None:
    """Print what will be sent where, and how it was scaled."""
    pairs = [("target", f"{target.label}  ({target.url}, model {target.model})") for target in plan.targets]
    if len(pairs) == 2:
        pairs = [("A", pairs[0][1]), ("B", pairs[1][1])]
    say_pairs([*pairs, ("workload", workload(plan)), ("seed", str(plan.seed))])
    say()


def workload(plan: Plan) -> str:
    """One line: lengths, and what they were scaled by."""
    if plan.profile is None:
        return f"trace of {len(plan.trace)} requests"
    fitted = plan.profile.fitted(plan.context)
    shape = fitted.typical
    shared = f", {shape.shared_prefix_tokens} of them shared" if shape.shared_prefix_tokens else ""
    text = f"{fitted.name}: {shape.input_tokens} tokens in{shared}, {shape.output_tokens} out"
    if fitted.spread:
        text += " (medians)"
    if fitted.scale < 1:
        whole = plan.profile.typical
        text += (
            f"; scaled by {fitted.scale:.3g} from {whole.input_tokens} → {whole.output_tokens} to fit a context of "
            f"{plan.context}"
        )
    return text


def title(data: dict[str, Any]) -> str:
    """One line for a plot."""
    traffic = data["workload"]
    names = " against ".join(target["label"] for target in data["targets"])
    if "profile" not in traffic:
        return f"{names}: trace of {traffic['trace_requests']} requests"
    lengths = f"{traffic['input_tokens']} tokens in, {traffic['output_tokens']} out"
    return f"{names}: {traffic['profile']}, {lengths}, {data['machine']['cores']} cores of {data['machine']['cpu']}"


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator[Progress]:
    """A bar for each load on a terminal, a line elsewhere, nothing where quiet."""
    from outrider.loadgen.benchmark import Progress

    if quiet:
        yield Progress(lambda _: None, lambda _load, _count: None, lambda _: None)
        return
    if not console.is_terminal:
        yield Progress(lambda _: None, lambda load, count: say(f"{load.label}: {count} requests"), lambda _: None)
        return
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[seen]}"))  # fmt: skip
    with Bars(*columns, console=console) as bars:
        yield _bars(bars)


def _bars(bars: Bars) -> Progress:
    from outrider.loadgen.benchmark import Progress

    current = bars.add_task("starting", total=None, seen="")
    failed = 0

    def stage(words: str) -> None:
        bars.update(current, description=words)

    def load(begun: Load, count: int) -> None:
        nonlocal current, failed
        failed = 0
        bars.update(current, visible=False)
        current = bars.add_task(begun.label, total=count, seen="")

    def measured(request: Measurement) -> None:
        nonlocal failed
        failed += not request.ok
        seen = (
            f"last: {seconds(request.ttft)} to first token, {span(request.e2e)}" if request.ttft and request.e2e else ""
        )
        bars.update(current, advance=1, seen=f"{seen}  {failed} failed" if failed else seen)

    return Progress(stage, load, measured)


def show_rows(data: dict[str, Any], *, interrupted: bool) -> None:
    """Print a table for each load and target, then the ratios."""
    if interrupted:
        say("ended early: these loads were finished", "yellow")
    for row in data["rows"]:
        _show_row(row)
    for load, values in data["ratios"].items():
        say(f"{load}: {data['targets'][0]['label']} over {data['targets'][1]['label']}", "bold")
        rows = [(name, f"{value['value']:.3f}", _interval(value, lambda number: f"{number:.3f}"))
                for name, value in values.items()]  # fmt: skip
        show_table(("ratio", "value", "95 % interval"), rows)
        say()


def _show_row(row: dict[str, Any]) -> None:
    say(f"{row['target']}, {row['load']}: {row['requests']} requests in {span(row['seconds'])}", "bold")
    rows = []
    for name, words in _NAMES.items():
        if row[name] is not None:
            cells = (f"{seconds(value['value'])} {_interval(value, seconds)}".rstrip() for value in row[name].values())
            rows.append((words, *cells))
    show_table(("", "p50", "p95", "p99"), rows, empty="no request was answered")
    output = row["output_tps"]
    rates = f"{output['value']:.1f} {_interval(output, lambda number: f'{number:.1f}')}".rstrip()
    pairs = [
        ("output tokens/s", rates),
        ("total tokens/s", f"{row['total_tps']['value']:.1f}"),
        ("requests/s", f"{row['requests_per_second']:.3g}"),
        ("tokens", _tokens(row)),
        ("errors", str(row["errors"])),
    ]
    if row["rate"] is not None and row["client_lag_p99"] > 0.005:
        pairs.append(("client lag", f"{seconds(row['client_lag_p99'])} (p99): this machine sends late; lower the rate"))
    say_pairs([*pairs, *((f"  {count} ×", kind) for kind, count in row["error_kinds"].items())])
    say()


def _tokens(row: dict[str, Any]) -> str:
    if row["input_tokens_mean"] is None:
        text = f"{row['output_tokens_mean']} out (mean)"
    else:
        cached = f", {row['cached_tokens_mean']:g} of them cached" if row["cached_tokens_mean"] else ""
        text = f"{row['input_tokens_mean']:g} in{cached}, {row['output_tokens_mean']:g} out (means)"
    return text if row["tokens_counted_by"] == "server" else f"{text}; the server counts none: events were counted"


def seconds(value: float | None) -> str:
    """A duration with three digits, in the unit that suits it."""
    if value is None:
        return "–"
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def _interval(value: dict[str, float | None], told: Any) -> str:
    if value["low"] is None and value["high"] is None:
        return ""
    low = "?" if value["low"] is None else told(value["low"])
    high = "?" if value["high"] is None else told(value["high"])
    return f"({low} to {high})"
