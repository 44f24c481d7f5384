"""``drafter data``, ``drafter train`` and ``drafter eval``: what a drafter learns from, the drafter, how good it is.

The group ``drafter`` registers them. What needs torch is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from outrider.cli.terminal import console, say, show_json, show_table
from outrider.errors import MachineFault, UsageError

if TYPE_CHECKING:
    from outrider.drafting.chat_format import ChatFormat
    from outrider.drafting.dataset import Dataset
    from outrider.drafting.generation import Writer
    from outrider.drafting.target import Target
    from outrider.drafting.training import Progress

TargetPath = Annotated[
    Path, typer.Option("--target", "-t", help="The model: a directory of Hugging Face's layout, or a GGUF file.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or cuda:N. By default cuda where there is one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Show = Callable[[int, int, str], None]


def data(
    output: Annotated[Path, typer.Argument(help="Directory for rows.jsonl and manifest.json.")],
    target: TargetPath,
    chats: Annotated[int, typer.Option(help="Conversations that the target makes up.")] = 0,
    prompts: Annotated[list[Path] | None, typer.Option(help='JSONL: {"messages": [...]} a line. Repeatable.')] = None,
    templates: Annotated[
        list[Path] | None, typer.Option(help="YAML of templates with typed slots. Repeatable.")
    ] = None,
    shipped_templates: Annotated[bool, typer.Option(help="Also the templates of the shipped drafter.")] = False,
    per_template: Annotated[int, typer.Option(help="Fillings of each template.")] = 20,
    turns: Annotated[int, typer.Option(help="Most turns of a made-up conversation.")] = 1,
    held_out: Annotated[float, typer.Option(help="Share of made-up conversations kept for measuring.")] = 0.05,
    temperature: Annotated[float, typer.Option(help="Of answers, as in serving; 0 is greedy.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Of answers, as in serving.")] = 1.0,
    limit: Annotated[int, typer.Option(help="Longest answer, in tokens.")] = 384,
    width: Annotated[int, typer.Option(help="Longest conversation, in tokens.")] = 1024,
    slots: Annotated[int, typer.Option(help="Conversations at once.")] = 32,
    minutes: Annotated[float, typer.Option(help="Start none after so long; 0 for no limit.")] = 0.0,
    url: Annotated[str | None, typer.Option(help="An engine that serves the target, instead of this process.")] = None,
    model: Annotated[str, typer.Option(help="The name that the engine serves it by.")] = "",
    key: Annotated[str | None, typer.Option(envvar="OUTRIDER_KEY", help="The engine's key.")] = None,
    seed: Annotated[int, typer.Option(help="Of everything drawn.")] = 0,
    device: Device = "",
    as_json: Json = False,
) -> None:
    """Let the target write data: answers to prompts that it makes up, to prompt files, and to filled templates."""
    require_torch()
    from outrider.drafting import making
    from outrider.drafting import templates as shipped
    from outrider.drafting.prompts import SelfPrompting
    from outrider.drafting.slots import Sampler
    from outrider.drafting.target_digest import target_digest

    settings = making.DataSettings(
        chats=chats,
        self_prompting=SelfPrompting(turns=tuple([1.0] * turns), held_out=held_out),
        prompts=tuple(prompts or ()),
        templates=(*(templates or ()), *([shipped.SHIPPED] if shipped_templates else [])),
        per_template=per_template,
        answer=Sampler(temperature, top_p),
        limit=limit,
        minutes=minutes,
        seed=seed,
    )
    if not (settings.chats or settings.prompts or settings.templates):
        raise UsageError("Nothing is asked of the target", remedy="Give --chats N, --prompts FILE or --templates FILE.")
    loaded = _target(target, device)
    form = _form(loaded)
    writer = _writer(loaded, form, settings, slots=(slots, width), engine=(url, model, key))
    about = {"target": {"name": target.name, "digest": target_digest(target)}}
    with bar("conversations", quiet=as_json) as show:

        def report(kept: int, total: int, tokens: int) -> None:
            show(kept, total, f"{tokens} tokens")

        manifest = making.make(output, writer, form, settings, about=about, report=report)
    if as_json:
        show_json(manifest)
        return
    counted = manifest["rows"]
    show_table(("rows", "", "answer tokens"), [(k, counted[k], manifest["answer_tokens"][k]) for k in sorted(counted)])


def train(
    output: Annotated[Path, typer.Argument(help="Directory for the drafter and its resumable state.")],
    target: TargetPath,
    data: Annotated[Path, typer.Option("--data", "-d", help="What drafter data wrote.")],
    settings: Annotated[Path | None, typer.Option(help="YAML of settings; docs/guides/drafters.md lists them.")] = None,
    start: Annotated[Path | None, typer.Option("--from", help="A drafter to go on from, instead of a new one.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps in all.")] = None,
    minutes: Annotated[float | None, typer.Option(help="As many steps as fit, measured first.")] = None,
    until: Annotated[int | None, typer.Option(help="Stop after this step; go on later with --resume.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the saved state, if there is one.")] = False,
    seed: Annotated[int | None, typer.Option(help="Of weights, order and blocks.")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Directory for TensorBoard's events.")] = None,
    wandb: Annotated[str | None, typer.Option(help="Project of Weights & Biases.")] = None,
    device: Device = "",
    as_json: Json = False,
) -> None:
    """Train a drafter on data that its target wrote. For several GPUs: torchrun --no-python outrider drafter train …"""
    require_torch()
    from outrider.drafting import dataset, finishing, training
    from outrider.drafting import settings as training_settings
    from outrider.drafting.target_digest import target_digest
    from outrider.drafting.trackers import track

    chosen = training_settings.TrainSettings() if settings is None else training_settings.read(settings)
    said: dict[str, Any] = {"seed": seed, "steps": 0 if minutes else steps, "minutes": minutes}
    chosen = replace(chosen, **{name: value for name, value in said.items() if value is not None})
    found, loaded, digest = dataset.read(data), _target(target, device), target_digest(target)
    drafter = training.fresh(chosen, loaded) if start is None else training.warm(start, loaded)
    trainer = training.Trainer(drafter, loaded, found, chosen, output, digest=digest)
    if resume:
        trainer.resume()
    last: Progress | None = None
    with bar("steps", quiet=as_json) as show, track(tensorboard, wandb) as tell:

        def report(progress: Progress) -> None:
            nonlocal last
            last = progress
            tell(progress)
            show(progress.step, progress.steps, _line(progress))

        trainer.run(report, until=until)
    if trainer.finished and trainer.leads:
        about = {"name": target.name, "sha256": digest}
        finishing.save(
            drafter, output, name=output.name, target=about, manifest=found.manifest, settings=chosen,
            steps=trainer.steps, parent=None if start is None else start.name,
        )  # fmt: skip
    result = {"drafter": str(output), "step": trainer.step, "steps": trainer.steps, "finished": trainer.finished}
    result |= {} if last is None else {"loss": last.loss, "eal": last.eal, "held_out_eal": last.held_out}
    if as_json:
        show_json(result)
        return
    say(f"{output}: step {trainer.step} of {trainer.steps}" + ("" if trainer.finished else "; go on with --resume"))


def evaluate(
    drafter: Annotated[Path, typer.Argument(help="Directory of the drafter.")],
    target: TargetPath,
    data: Annotated[Path, typer.Option("--data", "-d", help="What drafter data wrote.")],
    split: Annotated[str, typer.Option(help="held_out, or train.")] = "held_out",
    records: Annotated[int, typer.Option(help="Answers of each slice.")] = 200,
    against: Annotated[Path | None, typer.Option(help="Another drafter, measured on the same answers.")] = None,
    ngram: Annotated[bool, typer.Option(help="Measure n-gram speculation as well.")] = False,
    batch: Annotated[int, typer.Option(help="Answers at once.")] = 16,
    save: Annotated[bool, typer.Option(help="Write τ on the drafter's card.")] = True,
    device: Device = "",
    as_json: Json = False,
) -> None:
    """Measure acceptance on answers that the target gave: exactly, by slice, without an engine."""
    require_torch()
    from outrider.drafting import acceptance, checkpoint, dataset, evaluation, finishing, held_out
    from outrider.drafting.proposers import PromptLookup

    found, loaded = dataset.read(data), _target(target, device)
    if split not in ("held_out", "train"):
        raise UsageError(f"There is no split {split!r}", remedy="Say held_out or train.")
    _same_target(found, target)
    chosen = held_out.records([row for row in found.rows if row.split == split], per_slice=records)
    measured = {}
    for path in [drafter, *([] if against is None else [against])]:
        model = checkpoint.load(path, dtype=loaded.dtype, device=loaded.device)
        loaded.tap(model.config.target_layer_ids)
        measured[str(path)] = evaluation.measure(model, loaded, chosen, batch_size=batch)
    if ngram:
        measured["n-gram"] = evaluation.measure_lookup(PromptLookup(), chosen)
    if save and split == "held_out":
        finishing.add_evaluation(drafter, measured[str(drafter)].emit())
    ratio = None if against is None else acceptance.ratio(measured[str(drafter)], measured[str(against)])
    if as_json:
        shown: dict[str, Any] = {name: each.emit() for name, each in measured.items()}
        show_json(
            shown if ratio is None else shown | {"ratio": {"value": ratio.value, "low": ratio.low, "high": ratio.high}}
        )
        return
    for name, each in measured.items():
        say(name, "bold")
        say(each.table())
    if ratio is not None:
        say(f"τ is {ratio.value:.3f} times the other's (95 %: {ratio.low:.3f} to {ratio.high:.3f})")


def require_torch() -> None:
    """Refuse kindly where the `train` extra is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("torch", "transformers", "safetensors") if find_spec(name) is None]
    if missing:
        raise MachineFault(
            f"Drafters are made with {missing[0]}, which is not installed", remedy="pip install 'outrider[train]'"
        )


@contextmanager
def bar(what: str, *, quiet: bool) -> Iterator[Show]:
    """A bar on a terminal, a line every 10 % elsewhere, nothing where quiet."""
    if quiet:
        yield lambda _done, _total, _seen: None
        return
    if not console.is_terminal:
        told = -1

        def line(done: int, total: int, seen: str) -> None:
            nonlocal told
            if (tenth := 10 * done // max(total, 1)) > told:
                told = tenth
                say(f"{done} of {total} {what}  {seen}")

        yield line
        return
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[seen]}"))  # fmt: skip
    with Bars(*columns, console=console) as bars:
        task = bars.add_task(what, total=None, seen="")
        yield lambda done, total, seen: bars.update(task, completed=done, total=total or None, seen=seen)


def _line(progress: Progress) -> str:
    held_out = "" if progress.held_out is None else f", held out {progress.held_out:.2f}"
    return f"loss {progress.loss:.3f}  τ≈{progress.eal:.2f}{held_out}  {progress.tokens_per_second:.0f} tokens/s"


def _target(path: Path, device: str) -> Target:
    import os

    import torch

    from outrider.drafting.target import Target

    chosen = device or (f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu")
    # On a CPU fp32 is what is exact, and mostly what is fast.
    dtype = torch.float32 if chosen == "cpu" else torch.bfloat16
    return Target.load(path, dtype=dtype, device=chosen)


def _form(target: Target) -> ChatFormat:
    from outrider.drafting.chat_format import ChatFormat

    eos = getattr(getattr(target.model, "generation_config", None), "eos_token_id", None)
    return ChatFormat(target.tokenizer, [eos] if isinstance(eos, int) else eos or [])


def _writer(
    target: Target,
    form: ChatFormat,
    settings: Any,
    *,
    slots: tuple[int, int],
    engine: tuple[str | None, str, str | None],
) -> Writer:
    from outrider.drafting import generation
    from outrider.drafting.engine_writer import EngineWriter

    url, model, key = engine
    if url is not None:
        return EngineWriter(url, model, form, key=key, concurrency=slots[0], seed=settings.seed)
    size = generation.Slots(*slots)
    return generation.in_process(target, size, stops=form.stops, seed=settings.seed, top_p=settings.answer.top_p < 1)


def _same_target(found: Dataset, target: Path) -> None:
    from outrider.drafting.target_digest import target_digest

    if found.manifest["target"]["digest"] != target_digest(target):
        raise UsageError("Another target wrote this data", remedy="Name that target, or make data with this one.")
