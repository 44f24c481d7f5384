"""A tuning before people's eyes: what is tried, what is best so far, how much time is left, and what came out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from outrider.cli.terminal import console, say, say_pairs, show_table
from outrider.cli.text import clean, span

if TYPE_CHECKING:
    from outrider.tuning.comparing import Comparison
    from outrider.tuning.settings import Setting
    from outrider.tuning.trial import Trial
    from outrider.tuning.tuner import Job

_WIDE = 26
"""Characters of what is tried, so that the bar stays where it is."""


class _Clock(Progress):
    """Progress of time: the bar goes on while a trial says nothing."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """See :class:`rich.progress.Progress`."""
        for task in self.tasks:
            task.completed = min(task.total or 0.0, task.elapsed or 0.0)
        return super().get_renderables()


class _Left(ProgressColumn):
    """The time that is left."""

    def render(self, task: Task) -> Text:
        """See :class:`rich.progress.ProgressColumn`."""
        return Text(f"{span(max(0.0, (task.total or 0.0) - (task.elapsed or 0.0)))} left")


class _Doing(ProgressColumn):
    """What is best so far, and what a trial does."""

    def render(self, task: Task) -> Text:
        """See :class:`rich.progress.ProgressColumn`."""
        return Text.assemble(task.fields["best"], " ", (task.fields["doing"], "dim"))


class Display:
    """Shows a tuner's progress: a bar and a line a trial on a terminal, the lines alone elsewhere, nothing if quiet."""

    def __init__(self, budget: float, *, quiet: bool, bars: Progress | None) -> None:
        self._quiet = quiet
        self._bars = bars
        self._task = None if bars is None else bars.add_task("starting", total=budget, best="", doing="")

    def begins(self, stage: str, setting: Setting, rung: int, turn: int) -> None:
        """A trial begins."""
        what = clean(f"{stage} · {_short(setting)}")
        self._update(description=what[:_WIDE].ljust(_WIDE), doing="")

    def doing(self, words: str) -> None:
        """What the trial's replica does."""
        self._update(doing=clean(words))

    def ended(self, trial: Trial) -> None:
        """A line on the trial."""
        if not self._quiet:
            say(f"  {trial.stage:<12}  {trial.setting.label:<28}  {_result(trial)}")

    def best(self, setting: Setting, comparison: Comparison | None) -> None:
        """The best so far."""
        ratio = comparison.verdict.ratio if comparison is not None else None
        if ratio is not None and not self._quiet:
            say(f"  better: {setting.label}, {ratio.value:.2f} of the time a token", "green")
        self._update(best=f"best so far: {_short(setting)}")

    def _update(self, **fields: str) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, **fields)  # type: ignore[arg-type]


@contextmanager
def shown(budget: float, *, quiet: bool) -> Iterator[Display]:
    """A display for the time of a tuning."""
    if quiet or not console.is_terminal:
        yield Display(budget, quiet=quiet, bars=None)
        return
    with _Clock(*_columns(), console=console, transient=True, expand=True) as bars:
        yield Display(budget, quiet=quiet, bars=bars)


def _columns() -> tuple[ProgressColumn, ...]:
    """One line whatever the terminal's width: its end is cut off where it does not fit."""
    return (
        TextColumn("  {task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=14),
        _Left(table_column=Column(no_wrap=True)),
        _Doing(table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
    )


def show_job(job: Job) -> None:
    """What will be measured with what."""
    traffic = job.traffic
    kinds = ", ".join(f"{kind.name} {kind.share:.0%}" for kind in traffic.kinds)
    say_pairs(
        [
            ("endpoint", f"{job.plan.endpoint}  ({job.plan.engine}, recipe {job.plan.recipe})"),
            ("workload", f"{traffic.name} ({kinds}), {traffic.concurrency} in flight"),
            ("varied", ", ".join(job.stages)),
            ("budget", span(job.budget)),
            ("seed", str(job.seed)),
        ]
    )
    say()


def show_result(data: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """What came out, and where it was written."""
    from outrider.tuning.report import verdict_words

    say()
    say(verdict_words(data), "bold green" if data["improved"] else "bold")
    say()
    rows = [
        (row["kind"], row["drafting"], f"{row['acceptance_length']:.2f}", f"{row['ms_per_token']:.2f}",
         _number(row["speedup"]), _number(row["break_even"]))
        for row in data["slices"]
    ]  # fmt: skip
    if rows:
        show_table(("traffic", "drafting", "τ", "ms/token", "speedup", "break-even τ"), rows)
        say()
    for line in data["unfinished"]:
        say(f"left undone: {line}", "yellow")
    say_pairs(files.items())


def _result(trial: Trial) -> str:
    from outrider.tuning.trial import pooled

    outcome = trial.outcome
    if outcome.failure is not None:
        return f"lost: {outcome.failure}"
    figures = pooled(outcome.loads)
    if outcome.cut or figures is None:
        return "cut short: the budget is spent"
    tau = figures["acceptance_length"]
    drafted = f", τ {tau:.2f}" if tau is not None else ""
    itl = "" if figures["itl_p50"] is None else f", ITL {1000 * figures['itl_p50']:.1f} ms"
    return f"{1000 * figures['cost_p50']:.1f} ms a token{itl}{drafted}  ({span(trial.seconds)})"


def _short(setting: Setting) -> str:
    """A setting in few words."""
    return setting.label.replace("speculation ", "")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
