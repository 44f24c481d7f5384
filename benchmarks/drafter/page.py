"""The measured parts of ``docs/reference/shipped-drafters.md`` and ``docs/performance.md``.

    python -m benchmarks.drafter.page

What stands between two marks on those pages is replaced: it is written from the shipped drafter's card, its recipes and
the files under ``results/``. A test sees to it that pages and results agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.drafter import engine_tables
from benchmarks.drafter.engine_tables import METHODS, NOTHING, SLICES, Json

from outrider.drafting.card import Card, read_card
from outrider.engines.drafters import loaders
from outrider.models.safetensors import read_object
from outrider.models.sources import SHIPPED_DRAFTERS
from outrider.recipes.library import load_catalog
from outrider.tuning.report import table

RESULTS = Path(__file__).with_name("results")
DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "reference" / "shipped-drafters.md", DOCS / "performance.md")
SHIPPED = "smollm2-135m-instruct-dflash"
WANTED = {
    "tau_chat": (">=", 2.8),
    "tau_code": (">=", 3.5),
    "tau_json_heldout_templates": (">=", 3.5),
    "tau_dflash2_over_dflash": (">=", 1.1),
    "tau_ctx4096_over_ctx256": (">=", 0.9),
    "decode_ms_json_vllm_cpu_over_none": ("<=", 0.5),
    "decode_ms_chat_vllm_cpu_over_none": ("<=", 1.0),
}
"""What each ratio was to be."""
_CONTEXTS = {"context-256": "chat after 256 tokens", "context-4096": "chat after 4,096 tokens"}
_NONE = "–"


def result(name: str) -> Any:
    """One file under ``results/``; None: it was not measured."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def card() -> str:
    """What the shipped drafter is, and what it was made from."""
    directory, made = SHIPPED_DRAFTERS / SHIPPED, result("made")
    said, config, size = read_card(directory), read_object(directory / "config.json"), made["drafters"]["dflash"]
    rows = [
        ("name", f"`outrider:{SHIPPED}`"),
        ("kind", f"DFlash: bf16, one safetensors file in z-lab's format; {size['parameters']:,} numbers"),
        ("size", f"{size['bytes']:,} bytes"),
        ("sha256", f"`{size['sha256']}`"),
        ("target", f"{said.target.name}, weights `{said.target.sha256}`"),
        ("licence of the target", f"{made['target']['license']}, says the header of its GGUF"),
        ("shape", _shape(config)),
        ("reads", f"the target's layers {_listed(config['dflash_config']['target_layer_ids'])} (from 0), after each"),
        ("training", _training(said)),
        ("data", _data(said, made["data"])),
        ("modes, languages", _trained_on()),
        ("longest context trained for", f"{said.max_context:,} tokens"),
    ]
    return table(("", ""), rows)


def _shape(config: Json) -> str:
    return (
        f"{config['num_hidden_layers']} layers of width {config['hidden_size']}, SwiGLU {config['intermediate_size']},"
        f" {config['num_attention_heads']} heads of {config['head_dim']}, {config['num_key_value_heads']} of keys and"
        f" values; blocks of {config['block_size']}, the anchor included"
    )


def _training(said: Card) -> str:
    used = said.hyperparameters
    name, objective = used["optimizer"]["name"].capitalize(), used["loss"]["objective"]
    return (
        f"{used['steps']:,} steps of {used['rows']} × {used['width']:,} tokens, {used['anchors']} blocks a row;"
        f" loss {objective}, {name}, EMA {used['optimizer']['ema']}, seed {used['seed']}"
    )


def _data(said: Card, counts: Json) -> str:
    parts = [
        f"{SLICES[name]} {counts['rows'][f'train/{name}']:,} ({counts['answer_tokens'][f'train/{name}'] / 1e6:.2f} M)"
        for name in ("chat", "code", "json")
    ]
    return (
        f"{said.data.examples:,} conversations, {(said.data.tokens or 0) / 1e6:.2f} M answer tokens, every answer the"
        f" target's own at temperature {counts['temperature']:g}, {counts['limit']} tokens at most: {_listed(parts)}"
    )


def _trained_on() -> str:
    """Of the recipes' entries for it, which are alike."""
    options = (option for recipe in load_catalog([]).all() for option in recipe.drafters)
    first = next(option.trained_on for option in options if option.drafter == f"outrider:{SHIPPED}")
    return f"{_listed(first.modes or ())}; {_listed(first.languages or ())}"


def held_out() -> str:
    """What the slices are."""
    counts = result("made")["data"]
    splits, records = counts["templates"], counts["records"]
    return (
        "- *chat*: the target made up the user's turns, too, from its chat template.\n"
        f"- *code-like* and *JSON*: {counts['operations']} tasks on {sum(records.values())} kinds of records,"
        f" {sum(splits.values())} templates in all. {splits['held_out']} of them, those of"
        f" {records['held_out']} kinds of records, were held out: no training saw them."
    )


def acceptance() -> str:
    """τ of the shipped drafter, with intervals, and how far blocks stood."""
    found = result("evaluation")["dflash"]
    names = SLICES | _CONTEXTS
    rows = [one for one in (*found["slices"], *_contexts(found)) if one["slice"] in names]
    first = [(names[one["slice"]], f"{one['records']:,}", f"{one['blocks']:,}", _interval(one["tau"])) for one in rows]
    places = [str(place) for place in range(1, found["block_size"])]
    second = [(names[one["slice"]], *(f"{place['value']:.3f}" for place in one["positions"])) for one in rows]
    short, long = (_slice(found, name)["tau"]["value"] for name in _CONTEXTS)
    return "\n\n".join(
        [
            table(("slice", "answers", "blocks", "τ (95 %)"), first),
            f"After 4,096 tokens of context τ is {long / short:.3f} of what it is after 256.",
            "The share of blocks whose first k drafts all stood; τ is 1 more than a row's sum:",
            table(("slice", *(f"k = {place}" for place in places)), second),
        ]
    )


def comparison() -> str:
    """τ of n-gram lookup, DFlash and DFlash 2 on the same answers."""
    found = result("evaluation")
    rows = []
    for name, title in (SLICES | _CONTEXTS).items():
        taus = {method: _slice(found[method], name)["tau"] for method in METHODS}
        # n-gram's sum over everything also counts the answers after contexts.
        if name == "all":
            del taus["n-gram"]
        base = taus["dflash"]["value"]
        told = [_interval(taus[method]) if method in taus else _NONE for method in METHODS]
        ratios = [f"{taus[one]['value'] / base:.3f}" if one in taus else _NONE for one in ("n-gram", "dflash2")]
        rows.append((title, *told, *ratios))
    titles = ("slice", *(f"{title} τ (95 %)" for title in METHODS.values()), "n-gram ÷ DFlash", "DFlash 2 ÷ DFlash")
    return table(titles, rows) + "\n\n" + _verdict(found)


def _verdict(found: Json) -> str:
    ratio = _over(found)
    words = "as wanted" if ratio >= WANTED["tau_dflash2_over_dflash"][1] else "which it does not reach"
    return (
        f"Over all three slices DFlash 2 accepts {ratio:.3f} times as much as DFlash."
        f" At least {WANTED['tau_dflash2_over_dflash'][1]:.2f} was wanted, {words}."
    )


def _over(found: Json) -> float:
    return float(_slice(found["dflash2"], "all")["tau"]["value"] / _slice(found["dflash"], "all")["tau"]["value"])


def second() -> str:
    """DFlash 2's size beside DFlash's, and who loads both."""
    made = result("made")["drafters"]
    rows = []
    for kind in ("dflash", "dflash2"):
        one = made[kind]
        rank = f"{one['selector_rank']}" if one["selector_rank"] else _NONE
        size = (f"{one['parameters']:,}", f"{one['bytes']:,}", rank, f"{one['steps']:,}")
        rows.append((METHODS[kind], *size, f"`{one['sha256'][:12]}…`", _listed([str(each) for each in loaders(kind)])))
    titles = ("", "numbers", "bytes", "selector rank", "steps", "sha256", "loaded since")
    return table(titles, rows)


def kernel() -> str:
    """Microseconds of the context projection, three ways."""
    found = result("kernel")
    times = {(row["drafter"], row["rows"], row["mode"], row["way"]): row for row in found["rows"]}
    rows = []
    for shape, count, mode in dict.fromkeys(key[:3] for key in times):
        ways = [times[shape, count, mode, way] for way in ("layers", "torch", "fused")]
        told = (f"{row['us']:,.1f} ({row['low']:,.1f}–{row['high']:,.1f})" for row in ways)
        words = "called" if mode == "called" else "CUDA graph"
        rows.append((shape, f"{count:,}", words, *told, f"{ways[0]['us'] / ways[2]['us']:.1f}"))
    titles = ("drafter", "rows", "run", "layer by layer, µs", "one GEMM, µs", "one GEMM + Triton, µs", "times as fast")
    spans = [
        f"{min(here):.2f} to {max(here):.2f}"
        for mode in ("graph", "called")
        for here in [[ratio for name, ratio in found["ratios"].items() if f"_{mode}_" in name]]
    ]
    return (
        f"{found['machine']}, torch {found['versions']['torch']}, bf16; medians of {found['rounds']} rounds, with the"
        f" least and the most.\n\n{table(titles, rows)}\n\nOne GEMM with the fused kernel takes {spans[0]} of the"
        f" layer-by-layer form's time in a CUDA graph, and {spans[1]} of it called one by one, where launches count."
    )


def ratios() -> str:
    """Every ratio that was wanted, from whichever result has it."""
    latest, found = result("latest"), result("evaluation")
    values = {label: _slice(found["dflash"], name)["tau"]["value"] for name, label in
              (("chat", "tau_chat"), ("code", "tau_code"), ("json", "tau_json_heldout_templates"))}  # fmt: skip
    short, long = (_slice(found["dflash"], name)["tau"]["value"] for name in _CONTEXTS)
    values |= {"tau_dflash2_over_dflash": _over(found), "tau_ctx4096_over_ctx256": long / short}
    here: Json = {} if latest is None else latest["ratios"]
    rows = []
    for name, (sign, wanted) in WANTED.items():
        told = [values.get(name), here.get(name)]
        held = [value >= wanted if sign == ">=" else value <= wanted for value in told if value is not None]
        words = NOTHING if not held else "held" if all(held) else "missed"
        shown = [_NONE if value is None else f"{value:.4g}" for value in told]
        rows.append((f"`{name}`", f"{'≥' if sign == '>=' else '≤'} {wanted:g}", *shown, words))
    return table(("ratio", "wanted", "on an H200", "on a CPU", ""), rows)


def from_nothing() -> str:
    """One run of all stages in some minutes."""
    found = result("from_nothing")
    took, names = found["seconds"], SLICES | _CONTEXTS
    parts = _listed([f"{stage} {seconds:.0f} s" for stage, seconds in took.items()])
    rows = [(names[one["slice"]], f"{one['records']:,}", _interval(one["tau"])) for one in found["slices"]]
    return (
        f"{found['machine']}: {sum(took.values()):.0f} s in all, {parts};"
        f" {found['examples']:,} conversations, {found['steps']:,} steps. On its own held-out prompts:\n\n"
        + table(("slice", "answers", "τ (95 %)"), rows)
    )


def _contexts(found: Json) -> Sequence[Json]:
    return [one for one in found.get("after_context", found["slices"]) if one["slice"] in _CONTEXTS]


def _slice(found: Json, name: str) -> Json:
    rows = _contexts(found) if name in _CONTEXTS else found["slices"]
    return next(one for one in rows if one["slice"] == name)


def _interval(one: Json) -> str:
    return f"{one['value']:.2f} ({one['low']:.2f}–{one['high']:.2f})"


def _listed(parts: Sequence[Any]) -> str:
    return ", ".join(map(str, parts))


SECTIONS: dict[str, Callable[[], str]] = {
    "card": card,
    "held out": held_out,
    "acceptance": acceptance,
    "comparison": comparison,
    "second": second,
    "engine": lambda: engine_tables.on_a_cpu(result("latest")),
    "gpu": lambda: engine_tables.on_a_gpu(result("gpu")),
    "other prompts": lambda: engine_tables.on_other_prompts(result("other_prompts")),
    "kernel": kernel,
    "from nothing": from_nothing,
    "drafter": ratios,
}
"""By the mark's name: ``<!-- NAME results: begin -->``."""


def current(page: str) -> str:
    """A page with what the results say between its marks; marks of others are left alone."""
    for name, section in SECTIONS.items():
        begin, end = (f"<!-- {name} results: {side} -->" for side in ("begin", "end"))
        if begin in page:
            before, _, rest = page.partition(begin)
            _, _, after = rest.partition(end)
            page = f"{before}{begin}\n{section()}\n{end}{after}"
    return page


def main() -> None:
    """Write the pages."""
    for path in PAGES:
        path.write_text(current(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
