"""``drafter export``: a drafter in another engine's format."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from outrider.app.server import Progress
from outrider.cli.inspection import place
from outrider.cli.terminal import say, show_json
from outrider.cli.text import size
from outrider.cli.transfer import transfer
from outrider.errors import EngineMissing, UsageError
from outrider.models.digests import size as bytes_of
from outrider.models.drafter import read_drafter
from outrider.models.facts import read_facts
from outrider.models.weights import Weights
from outrider.recipes.library import load_catalog
from outrider.recipes.weights import weights_named

FORMATS = ("gguf", "speculators", "z-lab")
"""llama.cpp's; vLLM's own; what SGLang and vLLM load."""
_NEEDED = ("torch", "safetensors", "gguf")


def export(drafter: str, output: Path, *, to: str, target: str | None, quantisation: str, as_json: bool) -> None:
    """Convert a drafter.

    Raises:
        UsageError: an unknown format, or no target. EngineMissing: what training needs is not installed.
        What the exports raise.
    """
    if to not in FORMATS:
        raise UsageError(f"There is no format {to!r}", remedy=f"Say one of {', '.join(FORMATS)}.")
    if target is None:
        raise UsageError("The export needs the target's files", remedy="Say --target with a path, model or recipe.")
    if lacking := [name for name in _NEEDED if find_spec(name) is None]:
        raise EngineMissing(
            "Drafters cannot be converted here",
            why=f"{', '.join(lacking)} cannot be imported",
            remedy="Install it with: pip install 'outrider[train]'",
        )
    source = place(drafter)
    made = _converted(source, output, to, target, quantisation, quiet=as_json)
    if as_json:
        show_json({"path": str(made), "format": to, "bytes": bytes_of(made)})
    else:
        say(f"{size(bytes_of(made))} at {made}")


def _converted(source: Path, output: Path, to: str, target: str, quantisation: str, *, quiet: bool) -> Path:
    found, wanted = read_drafter(source).format, "speculators" if to == "z-lab" else "z-lab"
    if found != wanted:
        raise UsageError(
            f"{source} cannot become {to}",
            why=f"its format is {found}, and {to} is made from {wanted}",
            remedy="Use it as it is."
            if found == to
            else "Convert it to z-lab first, or give the directory it was made from.",
        )
    model = _target(target)
    if to == "speculators":
        from outrider.drafting.speculators_format import export_speculators

        verifier = target if not Path(target).exists() else str(model)
        return export_speculators(source, output, verifier=verifier, verifier_architecture=_class(model))
    if to == "z-lab":
        from outrider.drafting.speculators_format import import_speculators

        return import_speculators(source, output, target_layers=read_facts(model).layers or 0)
    if model.is_dir():
        raise UsageError(
            f"{target} has no tokenizer in GGUF's form",
            why="a drafter's GGUF takes it over from its target's",
            remedy="Name the target's GGUF file.",
        )
    from outrider.drafting.gguf_export import export_gguf

    with transfer(quiet=quiet) as report:
        return export_gguf(
            source,
            output,
            target_model=model,
            quantisation=quantisation,
            report=lambda done, total: report(Progress("converting", done, total)),
        )


def _target(name: str) -> Path:
    """The target's files, fetched if they are not here."""
    path = Path(name).expanduser()
    if path.exists():
        return path
    plan = weights_named(name, load_catalog())
    with transfer(quiet=True) as report:
        return Weights(*plan.sources, sha256=plan.sha256).prepare(report)


def _class(model: Path) -> str:
    """``architectures[0]`` of the target; a GGUF does not say it."""
    facts = read_facts(model)
    if facts.format == "gguf":
        raise UsageError(
            f"{model.name} does not say its architecture's class", remedy="Give the target's Hugging Face directory."
        )
    return facts.architecture
