"""Plan → ``serve.py``: a file a person would be glad to have written, and exactly what runs.

Every value becomes source through :func:`repr` of a checked plain type, comments and the docstring are stripped of
anything that could end them: no string of a plan can become code.
"""

from __future__ import annotations

import textwrap

from outrider.recipes.plan import Plan

_WIDTH = 100
_ENGINES = {"llamacpp": "LlamaCpp", "vllm": "VLLM", "sglang": "SGLang"}
_TITLES = {"llamacpp": "llama.cpp", "vllm": "vLLM", "sglang": "SGLang"}


def render(plan: Plan, *, version: str) -> str:
    """The source of a plan's ``serve.py``. Deterministic.

    Args:
        version: of the Outrider that writes it.
    """
    parts = [
        _docstring(plan, version),
        "import outrider",
        _constants(plan),
        _weights(plan),
        *_environment(plan),
        _engine(plan),
        "app = outrider.App(NAME)",
    ]
    return "\n\n".join(parts) + "\n\n\n" + _server(plan)


def _docstring(plan: Plan, version: str) -> str:
    who = plan.provenance
    lines = [
        f"{plan.model} on {_TITLES[plan.engine]}, as one replica of the endpoint {plan.endpoint}.",
        "",
        f"Written by Outrider {version}; it runs exactly this file. Edit it and `outrider deploy` it: the file wins.",
        "",
        f"    model:      {plan.model}",
        f"    recipe:     {plan.recipe} version {plan.recipe_version}",
        f"    provenance: {who.status}, {who.when.isoformat()}" + (f"; {who.note}" if who.note else ""),
        f"    engine:     {_TITLES[plan.engine]} {plan.engine_version}",
        f"    drafter:    {plan.speculation.method}; {plan.speculation.reason}",
    ]
    body = "\n".join(_wrapped(line) for line in lines)
    return f'"""{_quotable(body)}\n"""'


def _wrapped(line: str) -> str:
    flat = _one_line(line) if line else ""
    indent = " " * 16 if line.startswith("    ") else ""
    lead = "    " if line.startswith("    ") else ""
    return "\n".join(textwrap.wrap(flat, _WIDTH, initial_indent=lead, subsequent_indent=indent, break_long_words=False))


def _constants(plan: Plan) -> str:
    return f"NAME = {_literal(plan.endpoint)}  # what clients send as `model`"


def _weights(plan: Plan) -> str:
    lines = ["WEIGHTS = outrider.Weights("]
    lines += [f"    {_literal(source)}," for source in plan.weights.sources]
    if plan.weights.sha256:
        lines.append(f"    sha256={_literal(plan.weights.sha256)},")
    return "\n".join([*lines, ")"])


def _environment(plan: Plan) -> list[str]:
    environment = plan.environment
    if not (environment.python or environment.packages or environment.env):
        return []
    lines = ["ENVIRONMENT = outrider.Environment("]
    if environment.python:
        lines.append(f"    python={_literal(environment.python)},")
    if environment.packages:
        lines += ["    packages=(", *(f"        {_literal(package)}," for package in environment.packages), "    ),"]
    if environment.env:
        pairs = (f"        {_literal(name)}: {_literal(value)}," for name, value in environment.env.items())
        lines += ["    env={", *pairs, "    },"]
    return ["\n".join([*lines, ")"])]


def _engine(plan: Plan) -> str:
    lines = [f"ENGINE = outrider.{_ENGINES[plan.engine]}(", "    weights=WEIGHTS,"]
    if _environment(plan):
        lines.append("    environment=ENVIRONMENT,")
    for flag in plan.flags:
        if not flag.name.isidentifier():
            raise ValueError(f"flag {flag.name!r} is no identifier")
        lines += _comment(flag.reason, "    ")
        lines.append(f"    {flag.name}={_literal(flag.value)},")
    lines += _comment("warm-up: None sends a plain and a JSON-schema completion, both of which must work", "    ")
    lines.append("    warm_up=None,")
    return "\n".join([*lines, ")"])


def _server(plan: Plan) -> str:
    arguments = [f"    {name}={_literal(value)}," for name, value in plan.server.items() if value not in (None, False)]
    return "\n".join(
        [
            "@app.server(",
            *arguments,
            ")",
            "class Server:",
            '    """One replica: Outrider prepares, starts, probes, warms up and stops the engine."""',
            "",
            "    engine = ENGINE",
            "",
        ]
    )


def _literal(value: object) -> str:
    """A literal in double quotes where that needs no escape, as formatters write them."""
    if value is None or type(value) in (bool, int, float):
        return repr(value)
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} has no literal here")
    text = repr(value)
    if text.startswith("'") and '"' not in text:
        return f'"{text[1:-1]}"'
    return text


def _comment(text: str, indent: str) -> list[str]:
    return [f"{indent}# {line}" for line in textwrap.wrap(_one_line(text), _WIDTH - len(indent))]


def _one_line(text: str) -> str:
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


def _quotable(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"') if '"' in text or "\\" in text else text
