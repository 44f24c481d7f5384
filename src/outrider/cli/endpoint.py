"""``endpoint``: make, see, change and remove endpoints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.cli import applying, explaining, inspecting, stats
from outrider.cli.candidates import endpoint_names, model_ids, recipe_ids
from outrider.cli.consent import ask_if_untested
from outrider.cli.removing import remove, remove_failed
from outrider.cli.terminal import console, say, show_json
from outrider.cli.up import start_if_needed
from outrider.cli.waiting import wait_ready
from outrider.client.http import Client
from outrider.errors import OutriderError, UsageError

app = typer.Typer(
    name="endpoint",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Make, see, change and remove endpoints.",
)
inspecting.register(app)
applying.register(app)
stats.register(app)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Existing = Annotated[str, typer.Argument(autocompletion=endpoint_names)]
Model = Annotated[
    str | None,
    typer.Option(help="Hub id of a model in the catalog, or path:FILE.gguf.", autocompletion=model_ids),
]
Name = Annotated[str | None, typer.Option(help="DNS label of at most 40 characters; default: from the model.")]
File = Annotated[Path | None, typer.Option("--file", "-f", help="The spec as YAML.")]
Task = Annotated[str | None, typer.Option(help="generate or embed.")]
Engine = Annotated[str | None, typer.Option(help="llamacpp, vllm or sglang; default: the planner's choice.")]
RecipeId = Annotated[
    str | None,
    typer.Option("--recipe", help="A recipe's id; default: the planner's choice.", autocompletion=recipe_ids),
]
WeightsFrom = Annotated[str | None, typer.Option("--weights", help="hf:org/name@rev#file, path:… or package:…")]
Adapters = Annotated[
    list[str] | None,
    typer.Option("--adapter", help="A LoRA adapter, asked for as ENDPOINT:NAME: --adapter name=DIRECTORY or name=hf:…"),
]
DrafterChoice = Annotated[str | None, typer.Option("--drafter", help="auto, off, ngram, mtp, hf:… or path:…")]
Gpu = Annotated[str | None, typer.Option(help="GPU model and count, H200:1; default: the planner's choice.")]
Memory = Annotated[str | None, typer.Option(help="Memory a replica may need: 2GiB; default: computed.")]
Cpu = Annotated[float | None, typer.Option(help="Quota in cores for one replica.")]
MinReplicas = Annotated[int | None, typer.Option(help="How many replicas.")]
Sets = Annotated[list[str] | None, typer.Option("--set", help="An engine flag: --set context=4096.")]


@app.command()
def create(
    model: Model = None,
    name: Name = None,
    file: File = None,
    task: Task = None,
    engine: Engine = None,
    recipe: RecipeId = None,
    weights: WeightsFrom = None,
    drafter: DrafterChoice = None,
    adapters: Adapters = None,
    gpu: Gpu = None,
    cpu: Cpu = None,
    memory: Memory = None,
    min_replicas: MinReplicas = None,
    sets: Sets = None,
    unauthenticated: Annotated[bool, typer.Option(help="Ask for no key.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until it serves.")] = True,
    keep: Annotated[bool, typer.Option(help="Keep the endpoint if it fails to start.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait.")] = 3600.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even where the recipe is untested.")] = False,
    as_json: Json = False,
) -> None:
    """Make an endpoint and wait until it serves. Starts `outrider up` where nothing runs.

    Asks where nobody has tested the recipe on its hardware; without a terminal that is refused, unless with --yes.
    """
    spec = _spec(file, model=model, name=name, task=task, engine=engine, recipe=recipe, weights=weights,
                 drafter=drafter, adapters=adapters or [], gpu=gpu, cpu=cpu, memory=memory, min_replicas=min_replicas,
                 sets=sets or [], unauthenticated=unauthenticated)  # fmt: skip
    from outrider.spec.endpoint import parse

    label = parse(spec).label
    with Client() as client:
        start_if_needed(client, quiet=as_json)
        if not yes:
            ask_if_untested(client.plan(spec), ask=not as_json)
        view = client.put(label, spec, create=True)
        if wait:
            view = _await(client, view, timeout=timeout, keep=keep, quiet=as_json)
        issued = client.keys()
    if as_json:
        show_json(view)
    else:
        keyed = not unauthenticated and any(key["revoked_at"] is None for key in issued)
        explaining.show_created(view, waited=wait, key_needed=keyed)


@app.command()
def plan(
    model: Model = None,
    name: Name = None,
    file: File = None,
    task: Task = None,
    engine: Engine = None,
    recipe: RecipeId = None,
    weights: WeightsFrom = None,
    drafter: DrafterChoice = None,
    adapters: Adapters = None,
    gpu: Gpu = None,
    cpu: Cpu = None,
    memory: Memory = None,
    min_replicas: MinReplicas = None,
    sets: Sets = None,
    everything: Annotated[
        bool, typer.Option("--explain", help="Show all that was considered, its memory and its speed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Explain what would run, and why. Changes nothing, starts nothing."""
    spec = _spec(file, model=model, name=name, task=task, engine=engine, recipe=recipe, weights=weights,
                 drafter=drafter, adapters=adapters or [], gpu=gpu, cpu=cpu, memory=memory, min_replicas=min_replicas,
                 sets=sets or [])  # fmt: skip
    made = explaining.make_plan(spec)
    if as_json:
        show_json(made.model_dump(mode="json"))
    else:
        explaining.show_plan(made, everything=everything)


@app.command()
def stop(name: Existing, as_json: Json = False) -> None:
    """Drain and stop its replicas. Spec, revisions and cache stay."""
    _act(name, "stop", "is stopping; start it again with: outrider endpoint start", as_json)


@app.command()
def start(
    name: Existing,
    wait: Annotated[bool, typer.Option(help="Wait until it serves.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait.")] = 3600.0,
    as_json: Json = False,
) -> None:
    """Start a stopped or failed endpoint."""
    with Client() as client:
        view = client.act(name, "start")
        if wait:
            view = wait_ready(client, view, timeout=timeout, quiet=as_json)
    if as_json:
        show_json(view)
    else:
        say(f"{name} is {view['state']} at {view['url']}")


@app.command()
def rollback(
    name: Existing,
    revision: Annotated[int | None, typer.Option(help="Default: the last one that served.")] = None,
    as_json: Json = False,
) -> None:
    """Make an earlier revision the next one."""
    body = None if revision is None else {"revision": revision}
    with Client() as client:
        view = wait_ready(client, client.act(name, "rollback", body), timeout=3600.0, quiet=as_json)
    if as_json:
        show_json(view)
    else:
        say(f"{name} serves revision {view['revision']['number']}")


@app.command()
def rm(
    name: Existing,
    purge: Annotated[bool, typer.Option("--purge", help="Destroy its revisions and events.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove an endpoint for good; --purge must be said. `stop` keeps everything. Asks on a terminal."""
    with Client() as client:
        client.endpoint(name)
        if not purge:
            client.delete(name, purge=False)  # refused, and the answer says what to do
        if not (yes or as_json) and sys.stdin.isatty() and console.is_terminal:
            typer.confirm(f"Destroy {name} with all its revisions and events?", abort=True)
        remove(client, name)
    if as_json:
        show_json({"removed": name})
    else:
        say(f"{name} is removed")


def _act(name: str, action: str, words: str, as_json: bool) -> None:
    with Client() as client:
        view = client.act(name, action)
    if as_json:
        show_json(view)
    else:
        say(f"{name} {words} {name}")


def _await(client: Client, view: dict[str, Any], *, timeout: float, keep: bool, quiet: bool) -> dict[str, Any]:
    name = view["name"]
    try:
        return wait_ready(client, view, timeout=timeout, quiet=quiet)
    except OutriderError as error:
        if not keep:
            remove_failed(client, name, error)
        raise
    except KeyboardInterrupt:
        if not quiet:
            say(f"\n{name} goes on without you")
            say(f"  see it:    outrider endpoint info {name}")
            say(f"  remove it: outrider endpoint rm {name} --purge")
        raise


def _spec(file: Path | None, *, sets: list[str], adapters: list[str], **given: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {} if file is None else _read(file)
    for field in ("model", "name", "task", "engine", "recipe", "weights", "drafter"):
        if given.get(field) is not None:
            spec[field] = given[field]
    if given.get("unauthenticated"):
        spec["unauthenticated"] = True
    resources = {field: given[field] for field in ("gpu", "cpu", "memory") if given.get(field) is not None}
    if resources:
        spec["resources"] = {**spec.get("resources", {}), **resources}
    if given.get("min_replicas") is not None:
        spec["scaling"] = {**spec.get("scaling", {}), "min_replicas": given["min_replicas"]}
    if sets:
        spec["flags"] = {**spec.get("flags", {}), **dict(_flag(text) for text in sets)}
    if adapters:
        spec["adapters"] = {**spec.get("adapters", {}), **dict(_adapter(text) for text in adapters)}
    for field in ("weights", "model", "drafter"):
        value = spec.get(field)
        if isinstance(value, str) and value.startswith("path:"):
            spec[field] = f"path:{Path(value[5:]).expanduser().absolute()}"
    if "model" not in spec:
        raise UsageError("No model", remedy="Say --model org/name, or give a spec with -f FILE.")
    return spec


def _read(file: Path) -> dict[str, Any]:
    from outrider.spec.files import read_files

    found = read_files([str(file)])
    if len(found) != 1:
        raise UsageError(f"{file} holds {len(found)} endpoints", remedy=f"Use: outrider endpoint apply -f {file}")
    return found[0].spec()


def _adapter(text: str) -> tuple[str, str]:
    """A name and a reference; what has no scheme is a directory of this machine."""
    name, separator, value = (part.strip() for part in text.partition("="))
    if not separator or not name or not value:
        raise UsageError(f"--adapter {text!r} names no adapter", remedy="Write --adapter name=path:DIRECTORY.")
    if value.startswith("hf:"):
        return name, value
    return name, f"path:{Path(value.removeprefix('path:')).expanduser().absolute()}"


def _flag(text: str) -> tuple[str, bool | int | float | str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise UsageError(f"--set {text!r} is no flag", remedy="Write --set name=value.")
    if value.lower() in ("true", "false"):
        return name.strip(), value.lower() == "true"
    for number in (int, float):
        try:
            return name.strip(), number(value)
        except ValueError:
            continue
    return name.strip(), value
