"""What is wrong with recipe files: every problem of every file, with its line.

The schema says what a recipe may be; :func:`lint` also says what it should be: named by its custom, with a plausible
capacity curve, flags that its engine takes, and no id that another file takes away. Pure: texts in, findings out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from outrider.engines.flags import flags
from outrider.engines.speculation import WITH_DRAFTER
from outrider.errors import InvalidInput, InvalidReference, InvalidSpec, Problem
from outrider.models.sources import parse
from outrider.recipes.flags import ENGINES, complaint, known
from outrider.recipes.schema import CapacityPoint, Recipe
from outrider.spec.documents import MarkedDocument, is_mapping, no_mapping, read_marked
from outrider.spec.names import nearest_name
from outrider.spec.problems import problems

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """A file to look at.

    Attributes:
        path: its name for people.
        text: what it holds; None: it could not be read, ``refusal`` says why.
        rank: where it is searched, smaller first; of two recipes with one id the first is used.
    """

    path: str
    text: str | None
    rank: int
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem.

    Attributes:
        file, line: where (line from 1, None where the file has none).
        recipe: the recipe's id, None where it has none.
        field: dotted path, or ``(file)``, ``(document)``, ``(whole)``.
        severity: ``error`` (the recipe is refused, or does not do what it says) or ``warning``.
        message: one line, the field not repeated.
        nearest: the valid spelling that was probably meant, or None.
    """

    file: str
    line: int | None
    recipe: str | None
    field: str
    severity: str
    message: str
    nearest: str | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a recipe's id stands."""

    recipe: str
    file: str
    line: int
    rank: tuple[int, int]


def lint(files: Sequence[RecipeFile], others: Sequence[RecipeFile] = (), *, today: date) -> list[Finding]:
    """Every finding about ``files``, by file and line.

    Args:
        files: what to look at.
        others: the other files of the catalog, only for the ids that stand in them.
        today: the day that ``stale_after`` is compared with.
    """
    found: list[Finding] = []
    places: list[_Place] = []
    for number, file in enumerate(files):
        documents = _documents(file, found)
        for document in documents:
            found += _document(file, document, today)
        places += _places(file, documents, number)
    given = {file.path for file in files}
    for number, file in enumerate(others, len(files)):
        places += _places(file, _documents(file, []), number)
    found += _duplicates(places, given)
    order = {file.path: number for number, file in enumerate(files)}
    return sorted(found, key=lambda finding: (order[finding.file], finding.line or 0))


def _documents(file: RecipeFile, found: list[Finding]) -> list[MarkedDocument]:
    """The mappings of a file; what is none is added to ``found``."""
    if file.text is None:
        found.append(Finding(file.path, None, None, "(file)", ERROR, file.refusal))
        return []
    try:
        marked = read_marked(file.text)
    except InvalidSpec as error:
        line = error.details.get("line")
        found.append(Finding(file.path, line, None, "(file)", ERROR, str(error.problems[0]["message"])))
        return []
    if not marked:
        found.append(Finding(file.path, None, None, "(file)", ERROR, "holds no recipe"))
    for number, document in enumerate(marked, 1):
        if not is_mapping(document.data):
            problem = no_mapping(document.data, number)
            found.append(Finding(file.path, document.line(""), None, "(document)", ERROR, problem["message"]))
    return [document for document in marked if is_mapping(document.data)]


def _document(file: RecipeFile, document: MarkedDocument, today: date) -> Iterator[Finding]:
    data: Mapping[str, Any] = document.data
    recipe = data.get("id") if isinstance(data.get("id"), str) else None
    beyond = [
        *_naming(data),
        *_references(data),
        *_flags(data),
        *_curve(data),
        *_hardware(data),
        *_drafter(data),
        *_facts(data),
        *_staleness(data, today),
    ]
    complaints = [(ERROR, problem) for problem in _schema(data)]
    if any(severity == ERROR for severity, _ in beyond):
        # The schema looks at a recipe as a whole last, and says less of it than what was found here.
        complaints = [(severity, problem) for severity, problem in complaints if problem["field"] != "(whole)"]
    for severity, problem in (*complaints, *beyond):
        field, nearest = problem["field"], problem.get("nearest")
        yield Finding(file.path, document.line(field), recipe, field, severity, problem["message"], nearest)


def _schema(data: Mapping[str, Any]) -> list[Problem]:
    try:
        Recipe.model_validate(data)
    except ValidationError as error:
        bad = problems(Recipe, error.errors())
        fields = [problem["field"] for problem in bad]
        return [
            Problem({**problem, "message": _without(problem["field"], problem["message"])})
            for problem in bad
            # A list whose entries are all bad counts as empty, too; that says nothing new.
            if not (
                "after validation" in problem["message"] and any(f.startswith(f"{problem['field']}.") for f in fields)
            )
        ]
    return []


def _without(field: str, message: str) -> str:
    """A problem's message without the name of its field, which the finding has already."""
    return message.removeprefix(field).removeprefix(": ").removeprefix(" = ")


def _naming(data: Mapping[str, Any]) -> Iterator[tuple[str, Problem]]:
    identifier, model, engine = data.get("id"), _part(data, "model"), _part(data, "engine")
    if not isinstance(identifier, str):
        return
    names = [name for name in (model.get("id"), *_list(model.get("aliases"))) if isinstance(name, str)]
    spellings = [nearest_name(name.rpartition("/")[2]) for name in names]
    whose, slash, how = identifier.partition("/")
    engine_name = engine.get("name")
    hardware = _where(_part(data, "hardware"))
    if not spellings or not isinstance(engine_name, str):
        return
    near = f"{spellings[0]}/{engine_name}-{hardware}"
    if not slash or nearest_name(whose) not in spellings:
        yield WARNING, _problem("id", f"{identifier!r} does not begin with its model, {spellings[0]!r} and '/'", near)
    elif how != engine_name and not how.startswith(f"{engine_name}-"):
        yield WARNING, _problem("id", f"{identifier!r} does not name its engine, {engine_name!r}, after '/'", near)
    elif how != engine_name and re.match(rf"{engine_name}-{re.escape(hardware)}(-|$)", how) is None:
        yield (
            WARNING,
            _problem("id", f"{identifier!r} does not name its hardware, {hardware!r}, after the engine", near),
        )


def _where(hardware: Mapping[str, Any]) -> str:
    """As ids write hardware: ``cpu``, ``h200``, ``2xrtx-5090``, ``2x8xh200`` for nodes."""
    if hardware.get("kind") != "gpu":
        return "cpu"
    many = "".join(f"{hardware[name]}x" for name in ("nodes", "count") if hardware.get(name, 1) != 1)
    return many + nearest_name(str(hardware.get("gpu")).replace(" ", "-"))


def _references(data: Mapping[str, Any]) -> Iterator[tuple[str, Problem]]:
    for index, source in enumerate(_list(data.get("weights"))):
        reference = source.get("reference") if isinstance(source, dict) else None
        if isinstance(reference, str) and reference.startswith(("hf:", "path:", "package:")):
            try:
                parse(reference)
            except InvalidReference as error:
                message = f"{reference!r}: {error.why}" if error.why else error.what
                yield ERROR, _problem(f"weights.{index}.reference", message, error.details.get("nearest"))


def _flags(data: Mapping[str, Any]) -> Iterator[tuple[str, Problem]]:
    engine = str(_part(data, "engine").get("name"))
    if engine not in ENGINES:
        return  # the schema says so
    for name, given in _part(data, "flags").items():
        if not isinstance(given, dict) or "value" not in given:
            continue  # the schema says so
        value = given["value"]
        wrong = complaint(engine, name, value)
        if wrong is not None and name not in known(engine) and wrong[1]:
            yield ERROR, _problem(f"flags.{name}", f"{engine} has no such flag", wrong[1])
        elif wrong is not None:
            yield ERROR, _problem(f"flags.{name}", f"{value!r}: {wrong[0]}", wrong[1])
        elif (refusal := _refusal(data, engine, name, value)) is not None:
            yield ERROR, _problem(f"flags.{name}", refusal)


def _refusal(data: Mapping[str, Any], engine: str, name: str, value: Any) -> str | None:
    """Why the recipe's version of an engine would refuse a flag of a known name and type."""
    if engine == "llamacpp":
        return None
    version = _part(data, "engine").get("version")
    if known(engine)[name].argument or not isinstance(version, str) or version == "any":
        return None
    try:
        flags(engine).check_version({name: value}, version)
        flags(engine).checked({name: value}, {})
    except InvalidInput as error:
        return f"{error.what}: {error.why}"
    return None


def _curve(data: Mapping[str, Any]) -> Iterator[tuple[str, Problem]]:
    points: list[tuple[str, CapacityPoint]] = []
    for index, raw in enumerate(_list(data.get("capacity_curve"))):
        try:
            points.append((f"capacity_curve.{index}", CapacityPoint.model_validate(raw)))
        except ValidationError:
            continue  # the schema says so
    for (_, before), (field, point) in pairwise(points):
        if point.concurrency <= before.concurrency:
            message = f"{point.concurrency} after {before.concurrency}: the curve rises, each load once"
            yield ERROR, _problem(f"{field}.concurrency", message)
    for field, point in points:
        yield from _plausible(field, point)
    status = _part(data, "provenance").get("status")
    if status == "measured" and not _list(data.get("capacity_curve")):
        yield ERROR, _problem("capacity_curve", "provenance measured needs one")
    if status == "untested" and _list(data.get("capacity_curve")):
        yield (
            ERROR,
            _problem("capacity_curve", "what nobody ran has none; if somebody did, it is published or measured"),
        )
    most = _part(data, "limits").get("max_concurrency")
    if points and isinstance(most, int) and points[-1][1].concurrency > most:
        field, last = points[-1]
        message = f"{last.concurrency} is beyond limits.max_concurrency ({most})"
        yield WARNING, _problem(f"{field}.concurrency", message)


def _plausible(field: str, point: CapacityPoint) -> Iterator[tuple[str, Problem]]:
    for low, high in (("ttft_p50", "ttft_p95"), ("itl_p50", "itl_p95"), ("output_tps", "total_tps")):
        less, more = getattr(point, low), getattr(point, high)
        if less is not None and more is not None and more < less:
            yield ERROR, _problem(f"{field}.{high}", f"{more:g} is less than {low} ({less:g})")


def _hardware(data: Mapping[str, Any]) -> Iterator[tuple[str, Problem]]:
    hardware = _part(data, "hardware")
    if hardware.get("kind") == "gpu" and not hardware.get("gpu"):
        yield ERROR, _problem("hardware.gpu", "required for hardware of kind gpu")


def _drafter(data: Mapping[str, Any]) -> Iterator[tuple[str, Problem]]:
    chosen = _part(data, "speculation")
    method = chosen.get("method")
    for field in ("drafter", "quantization"):
        if method in WITH_DRAFTER and not chosen.get(field):
            yield ERROR, _problem(f"speculation.{field}", f"required for {method}")
        elif method not in WITH_DRAFTER and chosen.get(field):
            yield ERROR, _problem(f"speculation.{field}", f"{method} has no drafter of its own")
    for index, option in enumerate(_list(data.get("drafters"))):
        yield from _accepted(f"drafters.{index}", option, option)
        for number, one in enumerate(_list(option.get("slices")) if isinstance(option, dict) else []):
            yield from _accepted(f"drafters.{index}.slices.{number}", one, option)
    for index, point in enumerate(_list(data.get("capacity_curve"))):
        yield from _accepted(f"capacity_curve.{index}", point, chosen)


def _accepted(field: str, figures: Any, drafter: Any) -> Iterator[tuple[str, Problem]]:
    """A step commits the tokens drafted and the bonus token, at most."""
    if not (isinstance(figures, dict) and isinstance(drafter, dict)):
        return
    length, tokens = figures.get("acceptance_length"), drafter.get("tokens")
    if isinstance(length, int | float) and isinstance(tokens, int) and length > tokens + 1:
        yield (
            ERROR,
            _problem(f"{field}.acceptance_length", f"{length:g} is more than {tokens} drafted and the bonus token"),
        )


def _facts(data: Mapping[str, Any]) -> Iterator[tuple[str, Problem]]:
    facts = _part(_part(data, "model"), "facts")
    for less, more in (("experts_per_token", "experts"), ("active_parameters", "parameters"), ("kv_heads", "heads")):
        small, large = facts.get(less), facts.get(more)
        if isinstance(small, int) and isinstance(large, int) and small > large:
            yield ERROR, _problem(f"model.facts.{less}", f"{small} is more than {more} ({large})")
    kinds = [facts.get(kind) for kind in ("window_layers", "linear_layers", "plain_layers")]
    counted = sum(number for number in kinds if isinstance(number, int))
    if isinstance(facts.get("layers"), int) and counted > facts["layers"]:
        yield ERROR, _problem("model.facts.layers", f"{facts['layers']}, and {counted} layers by kind")


def _staleness(data: Mapping[str, Any], today: date) -> Iterator[tuple[str, Problem]]:
    last = data.get("stale_after")
    if isinstance(last, date) and last < today:
        yield WARNING, _problem("stale_after", f"{last} is over: somebody should measure again")


def _places(file: RecipeFile, documents: Sequence[MarkedDocument], number: int) -> list[_Place]:
    ids = [(document.data.get("id"), document) for document in documents]
    return [
        _Place(recipe, file.path, document.line("id"), (file.rank, number))
        for recipe, document in ids
        if isinstance(recipe, str)
    ]


def _duplicates(places: Sequence[_Place], given: set[str]) -> Iterator[Finding]:
    for recipe in dict.fromkeys(place.recipe for place in places):
        same = sorted((place for place in places if place.recipe == recipe), key=lambda place: place.rank)
        first = same[0]
        for place in same[1:]:
            if place.file == first.file:
                message = f"{recipe!r} stands twice in the file, first on line {first.line}"
                yield Finding(place.file, place.line, recipe, "id", ERROR, message)
                continue
            if place.file in given:
                message = f"{recipe!r} is shadowed by {first.file}, which is searched first"
                yield Finding(place.file, place.line, recipe, "id", WARNING, message)
            if first.file in given:
                message = f"{recipe!r} shadows {place.file}, which is searched later"
                yield Finding(first.file, first.line, recipe, "id", WARNING, message)


def _problem(field: str, message: str, nearest: str | None = None) -> Problem:
    if nearest:
        message += f" (did you mean {nearest!r}?)"
    return Problem(field=field, message=message, nearest=nearest)


def _part(data: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    found = data.get(field)
    return found if isinstance(found, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
