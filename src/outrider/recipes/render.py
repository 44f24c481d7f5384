"""Plan → ``serve.py``: a file a person would be glad to have written, and exactly what runs.

Every value becomes source through :func:`outrider.recipes.literals.literal`; the docstring and comments hold printable
characters only, on lines of their own, with quotes and backslashes escaped: no string of a plan can become code.
"""

from __future__ import annotations

import re
import textwrap

from outrider.engines.drafters import refuses_grammar
from outrider.engines.warmup import without_grammar
from outrider.recipes.flags import is_argument, known
from outrider.recipes.literals import WIDTH, literal
from outrider.recipes.plan import Flag, Plan, ServerPlan
from outrider.recipes.schema import Speculation

_CLASSES = {"llamacpp": "LlamaCpp", "vllm": "VLLM", "sglang": "SGLang"}
_TITLES = {"llamacpp": "llama.cpp", "vllm": "vLLM", "sglang": "SGLang"}
_HELD_AGAINST = (
    "Your own weights in place of the catalog model's. They were not here when this was planned, so they are compared"
    " with the facts that the plan rests upon before the engine starts."
)
_PRAGMA = re.compile(r"\W*(fmt|yapf|isort|ruff|flake8|noqa|type|pylint|pyright|mypy|nosec|pragma)\b", re.IGNORECASE)


def render(plan: Plan, *, version: str) -> str:
    """The source of a plan's ``serve.py``. Deterministic.

    Args:
        version: of the Outrider that writes it.

    Raises:
        ValueError: a flag's name is none of the engine's flags.
    """
    parts = [
        _docstring(plan, version),
        "import outrider",
        f"# What clients send as `model`.\nNAME = {literal(plan.endpoint, prefix=7, suffix=0)}",
        _weights(plan),
        *_adapters(plan),
        *_environment(plan),
        _warm_up(plan),
        _engine(plan),
        "app = outrider.App(NAME)",
    ]
    return "\n\n".join(parts) + "\n\n\n" + _server(plan.server)


def _docstring(plan: Plan, version: str) -> str:
    who, drafter = plan.provenance, plan.speculation
    said = "; ".join(part for part in (who.status, who.when.isoformat() if who.when else "", who.note) if part)
    facts = {
        "model": plan.model,
        "task": plan.task,
        "recipe": f"{plan.recipe} version {plan.recipe_version}",
        "provenance": said,
        "engine": f"{plan.engine} {plan.engine_version}",
        "weights": f"sha256 {plan.weights.sha256}" if plan.weights.sha256 else "not pinned by a digest",
        "drafter": f"{drafter.method}; {drafter.reason}",
        "written by": f"outrider {version}",
    }
    width = max(map(len, facts)) + 1
    model, endpoint = _one_line(plan.model) or "A model", _one_line(plan.endpoint)
    title = f"{model} on {_TITLES[plan.engine]}: one replica of the endpoint {endpoint}."
    lines = [
        *textwrap.wrap(title, WIDTH, break_long_words=False),
        "",
        "What is shown is what runs: Outrider runs exactly this file. To change it, edit it and",
        "`outrider deploy` it; the file then wins over the endpoint's spec.",
        "",
        # One fact a line, however long: programs read them, too.
        *(f"    {f'{name}:'.ljust(width)} {_one_line(value)}".rstrip() for name, value in facts.items()),
    ]
    return '"""' + "\n".join(_quotable(line) for line in lines) + '\n"""'


def _weights(plan: Plan) -> str:
    base = plan.weights.base
    lines = ["# One file, from the first source that has it."] if len(plan.weights.sources) > 1 else []
    if base is not None:
        lines += _comment(_HELD_AGAINST, "")
    lines.append(f"WEIGHTS = outrider.{'Weights' if base is None else 'OwnWeights'}(")
    lines += [f"    {literal(source)}," for source in plan.weights.sources]
    if base is not None:
        facts = base.model_dump(exclude_defaults=True)
        lines += ["    base=outrider.ModelFacts("]
        lines += [f"        {name}={literal(value)}," for name, value in facts.items()]
        lines.append("    ),")
    if plan.weights.sha256:
        lines.append(f"    sha256={literal(plan.weights.sha256)},")
    return "\n".join([*lines, ")"])


def _adapters(plan: Plan) -> list[str]:
    """The adapters by name, each with what was found in its files; nothing where there are none."""
    if not plan.adapters:
        return []
    lines = [*_comment("LoRA adapters: clients send NAME:ADAPTER as `model`.", ""), "ADAPTERS = {"]
    for one in plan.adapters:
        lines += [*_comment(one.reason, "    "), f"    {literal(one.name)}: outrider.Adapter("]
        lines += [f"        {literal(one.source)},", "        base=WEIGHTS,"]
        lines += [f"        sha256={literal(one.sha256)},"] if one.sha256 else []
        lines.append("    ),")
    return ["\n".join([*lines, "}"])]


def _environment(plan: Plan) -> list[str]:
    environment = plan.environment
    arguments = {
        "python": environment.python,
        "packages": environment.packages,
        "env": environment.env,
        "patches": environment.patches,
    }
    given = [_argument(name, value) for name, value in arguments.items() if value]
    return ["\n".join(["ENVIRONMENT = outrider.Environment(", *given, ")"])] if given else []


def _warm_up(plan: Plan) -> str:
    text, payloads = "Sent once before users' requests come: each must get a right answer.", plan.warm_up
    if refuses_grammar(plan.speculation.method, plan.engine, plan.engine_version):
        kept = tuple(dict(one) for one in without_grammar(payloads))
        text += f" None with a grammar, which {_TITLES[plan.engine]} {plan.engine_version} refuses with this drafter."
        payloads = kept
    return "\n".join([*_comment(text, ""), f"WARM_UP = {literal(payloads, prefix=10, suffix=0)}"])


def _engine(plan: Plan) -> str:
    lines = [f"ENGINE = outrider.{_CLASSES[plan.engine]}(", "    weights=WEIGHTS,"]
    if _environment(plan):
        lines.append("    environment=ENVIRONMENT,")
    extra: list[Flag] = []
    for flag in plan.flags:
        if flag.name not in known(plan.engine):
            raise ValueError(f"{plan.engine} has no flag {flag.name!r}")
        if not is_argument(plan.engine, flag.name):
            extra.append(flag)
            continue
        lines += [*_comment(flag.reason, "    "), _argument(flag.name, flag.value)]
    lines += _speculation(plan.speculation)
    if plan.adapters:
        lines.append("    adapters=ADAPTERS,")
    lines.append("    warm_up=WARM_UP,")
    if extra:
        lines.append("    extra={")
        for flag in extra:
            lines += [*_comment(flag.reason, " " * 8), f"        {literal(flag.name)}: {literal(flag.value)},"]
        lines.append("    },")
    return "\n".join([*lines, ")"])


def _speculation(chosen: Speculation) -> list[str]:
    """The engine's argument, with why; nothing where nothing speculates."""
    if chosen.method == "off":
        return []
    lines = [
        *_comment(chosen.reason, "    "),
        "    speculation=outrider.Speculation(",
        f"        {literal(chosen.method)},",
    ]
    if chosen.tokens:
        lines.append(f"        tokens={chosen.tokens},")
    if chosen.drafter:
        lines += [
            "        # Held against the target before the engine starts.",
            "        drafter=outrider.DraftWeights(",
            f"            {literal(chosen.drafter)},",
            "            target=WEIGHTS,",
            f"            method={literal(chosen.method)},",
            *([f"            tokens={chosen.tokens},"] if chosen.tokens else []),
            "        ),",
        ]
        lines.append(f"        quantization={literal(chosen.quantization or 'none')},")
    return [*lines, "    ),"]


def _server(server: ServerPlan) -> str:
    defaults = ServerPlan()
    arguments = [
        _argument(name, value)
        for name, value in server.model_dump().items()
        if name == "min_replicas" or value != getattr(defaults, name)
    ]
    body = [
        "class Server:",
        '    """One replica: Outrider prepares, starts, probes, warms up and stops the engine."""',
        "",
        "    engine = ENGINE",
        "",
    ]
    return "\n".join(["@app.server(", *arguments, ")", *body])


def _argument(name: str, value: object) -> str:
    return f"    {name}={literal(value, indent=4, prefix=len(name) + 1)},"


def _comment(text: str, indent: str) -> list[str]:
    """Comment lines. Words stay whole, and the first is never one that tools obey (``fmt: off``, ``type: ignore``)."""
    lines = textwrap.wrap(_one_line(text), WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False)
    return [f"{indent}# {'· ' if _PRAGMA.match(line) else ''}{line}" for line in lines]


def _one_line(text: str) -> str:
    """Printable characters only, any other run of characters as one space."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _quotable(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
