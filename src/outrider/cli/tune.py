"""``endpoint tune``: better flags, drafter and block length for an endpoint, found by measuring on this machine."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli.candidates import endpoint_names
from outrider.cli.terminal import console, say, show_json
from outrider.cli.waiting import wait_ready
from outrider.client.http import Client
from outrider.errors import InvalidInput, RecipeNotFound, UsageError

if TYPE_CHECKING:
    from outrider.recipes.schema import Recipe
    from outrider.spec.inventory import Inventory
    from outrider.tuning.subject import Asked
    from outrider.tuning.tuner import Tuning

_WORKLOAD = "A profile (chat, realtime, agentic), a trace (*.jsonl) or a workload file (*.yaml) that mixes kinds."
_VARY = "What to vary: threads, speculation, batch_size, slots; again for several. Default: all of it."
_METHOD = "A method of speculation to try; again for several. Default: all that the model has a drafter for."
_OUTPUT = "Directory for recipe, report, plot and data. Default: your recipe directory."


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command("tune")(tune)


def tune(
    name: Annotated[str, typer.Argument(autocompletion=endpoint_names)],
    workload: Annotated[str, typer.Option(metavar="FILE|PROFILE", help=_WORKLOAD)],
    budget: Annotated[str, typer.Option(help="Time it may take: 90s, 15m, 1h.")] = "15m",
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", min=1, help="Requests in flight; default: the workload's.")
    ] = None,
    vary: Annotated[list[str] | None, typer.Option(help=_VARY)] = None,
    method: Annotated[list[str] | None, typer.Option(help=_METHOD)] = None,
    promote: Annotated[bool, typer.Option("--promote", help="Make the winner the endpoint's next revision.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Promote without asking.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help=_OUTPUT)] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat a run's prompts; default: new ones.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, without the single trials.")] = False,
) -> None:
    """Find better flags for an endpoint by measuring, on this machine, with replicas of the tuner's own.

    Tries threads, speculation and its block length, batch size and slots, each as a real replica under an open loop
    at the workload's concurrency. Writes a recipe, a report and a plot; the endpoint changes only with --promote.
    """
    from outrider.tuning.subject import Asked

    chosen = secrets.randbelow(2**31) if seed is None else seed
    asked = Asked(workload, _seconds(budget), chosen, concurrency, vary or (), method or ())
    directory = _directory(output)
    with Client() as client:
        if not client.local:
            raise UsageError("An endpoint is tuned on the machine that it runs on", remedy="Run this command there.")
        view, revision = client.endpoint(name), client.revision(name)
    tuning, machine = _measured(view, revision, asked, quiet=as_json)
    made = _write(tuning, machine, directory, _command(name, asked, budget))
    _conclude(tuning, made, view, promote=promote, yes=yes, as_json=as_json)


def _conclude(
    tuning: Tuning,
    made: tuple[dict[str, Any], dict[str, str], Recipe | None],
    view: dict[str, Any],
    *,
    promote: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show what came out, before anybody is asked whether to promote it, and promote it."""
    from outrider.cli.tuning import show_result

    data, files, recipe = made
    if not as_json:
        show_result(data, files)
    promoted = _promote(tuning, recipe, view, yes=yes, as_json=as_json) if promote else None
    if as_json:
        told = {key: value for key, value in data.items() if key not in ("trials", "stages")}
        show_json({**told, "files": files, "promoted": promoted})
    elif promoted is not None:
        say(f"{view['name']} serves revision {promoted}", "green")
    elif promote:
        say("nothing was promoted")
    elif tuning.improved and recipe is not None:
        say(f"to use it, write into the endpoint's spec:  recipe: {recipe.id}")


def _measured(view: dict[str, Any], revision: dict[str, Any], asked: Asked, *, quiet: bool) -> tuple[Tuning, Inventory]:
    """What came out, and the machine that it was measured on."""
    from outrider.cli.tuning import show_job, shown
    from outrider.placement.discover import discover
    from outrider.recipes.library import load_catalog
    from outrider.spec.home import Home
    from outrider.tuning.replica import ReplicaBench, workplace
    from outrider.tuning.subject import job
    from outrider.tuning.tuner import Tuner

    home = Home.from_environment()
    machine = discover(home)
    work = job(view, revision, asked, inventory=machine, catalog=load_catalog())
    if not quiet:
        show_job(work)
        if view["replicas"]:
            say(f"replicas of {work.plan.endpoint} run beside the trials; for undisturbed figures first:"
                f" outrider endpoint stop {work.plan.endpoint}", "yellow")  # fmt: skip
    with _terminated_as_interrupted(), workplace(home) as own, shown(work.budget, quiet=quiet) as display:
        bench = ReplicaBench(work.plan, own, seed=work.seed, tell=display.doing)
        return Tuner(work, bench, display, clock=time.monotonic).run(), machine


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP end a tuning as Ctrl-C does: its replicas, which are nobody's children, are ended first."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write(
    tuning: Tuning, machine: Inventory, directory: Path, command: str
) -> tuple[dict[str, Any], dict[str, str], Recipe | None]:
    """Recipe, report, plot and data; the data, the files by what they are, and the recipe."""
    from outrider.tuning import findings, plot, report
    from outrider.tuning.recipe import Circumstances, recipe_of, written

    today = datetime.now(UTC).date()
    words = f"{machine.cores} cores of {machine.cpu_model}, {machine.memory_bytes / 2**30:.0f} GiB"
    if machine.gpus:
        words = f"{len(machine.gpus)} × {machine.gpus[0].name}, {words}"
    stem = f"tuned-{tuning.job.plan.endpoint}"
    directory.mkdir(parents=True, exist_ok=True)
    how = Circumstances(f"{words}; load average {os.getloadavg()[0]:.1f} at the end", command, today)
    data = {"date": today.isoformat(), "machine": how.machine, "command": command, **findings.as_dict(tuning)}
    files: dict[str, str] = {}
    recipe = recipe_of(tuning, how, version=_version(directory / f"{stem}.yaml"))
    if recipe is not None:
        _put(directory / f"{stem}.yaml", written(recipe, today=today), "recipe", files)
    drawn = bool(data["curves"]) and plot.available()
    if drawn:
        title = f"{tuning.job.plan.endpoint} on {machine.cpu_model if not machine.gpus else machine.gpus[0].name}"
        plot.plot(data, directory / f"{stem}.png", title=title)
        files["plot"] = str(directory / f"{stem}.png")
    text = report.markdown(data, plot=f"{stem}.png" if drawn else None)
    _put(directory / f"{stem}.md", text, "report", files)
    _put(directory / f"{stem}.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n", "data", files)
    return data, files, recipe


def _put(path: Path, text: str, what: str, files: dict[str, str]) -> None:
    path.write_text(text, encoding="utf-8")
    files[what] = str(path)


def _version(path: Path) -> int:
    """The next version of a recipe that an earlier tuning left there."""
    from outrider.errors import InvalidRecipe
    from outrider.recipes.library import read

    try:
        return max(recipe.version for recipe in read(path)) + 1 if path.exists() else 1
    except (InvalidRecipe, ValueError):
        return 1


def _promote(tuning: Tuning, recipe: Recipe | None, view: dict[str, Any], *, yes: bool, as_json: bool) -> int | None:
    """Make the winner the next revision; its number. None: nothing is better than what runs, or the user declined."""
    if not tuning.improved or recipe is None:
        return None
    from outrider.tuning.subject import tuned_spec

    name = str(view["name"])
    asks = not (yes or as_json) and sys.stdin.isatty() and console.is_terminal
    if asks and not typer.confirm(f"Make {tuning.best.label} the next revision of {name}?"):
        return None
    with Client() as client:
        if _known(client, recipe):
            made = client.put(name, tuned_spec(view["spec"], recipe), generation=view["generation"])
        else:
            made = client.deploy(_source(tuning), name)
        if made["desired"] == "running":
            made = wait_ready(client, made, timeout=3600.0, quiet=as_json)
    return int(made["revision"]["number"])


def _known(client: Client, recipe: Recipe) -> bool:
    """Whether the controller reads the directory that the recipe was written to, and finds just this one there."""
    try:
        return client.recipe(recipe.id) == recipe.model_dump(mode="json")
    except RecipeNotFound:
        return False


def _source(tuning: Tuning) -> str:
    from outrider._version import __version__
    from outrider.recipes.render import render
    from outrider.tuning.recipe import winner

    return render(winner(tuning), version=__version__)


def _seconds(budget: str) -> float:
    from outrider.spec.units import parse_span

    try:
        seconds = float(parse_span(budget))
    except ValueError as error:
        raise UsageError(
            f"--budget {budget!r} is no duration", why=str(error), remedy="Write 90s, 15m or 1h."
        ) from None
    if seconds <= 0:
        raise UsageError(f"--budget {budget!r} leaves no time", remedy="Write 90s, 15m or 1h.")
    return seconds


def _directory(output: Path | None) -> Path:
    """Where files go; refused before minutes go by for it, and made when there is something to write."""
    from outrider.placement.discover import nearest_existing
    from outrider.recipes.library import own_directories

    directory = own_directories(os.environ)[-1] if output is None else output.expanduser().absolute()
    there = nearest_existing(directory)
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        why = f"{there} is no directory" if not there.is_dir() else f"{there} is not yours to write to"
        raise InvalidInput(f"Nothing can be written into {directory}", why=why, remedy="Give --output another.")
    return directory


def _command(name: str, asked: Asked, budget: str) -> str:
    """What to type to measure again."""
    words = ["outrider", "endpoint", "tune", name, "--workload", asked.workload, "--budget", budget]
    words += ["--seed", str(asked.seed)]
    words += ["--concurrency", str(asked.concurrency)] if asked.concurrency else []
    words += [word for stage in asked.stages for word in ("--vary", stage)]
    words += [word for method in asked.methods for word in ("--method", method)]
    return shlex.join(words)
