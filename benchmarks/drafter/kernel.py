"""What it costs to turn new context rows into every draft layer's keys and values: three ways, on a GPU.

    python benchmarks/drafter/kernel.py                   # CUDA; writes results/kernel.json
    python benchmarks/drafter/kernel.py --device cpu      # a smoke test of tiny shapes; writes nothing

`layers` does it layer by layer, as z-lab's reference does: two projections, a norm and RoPE for each. `torch` is one
GEMM for all layers, then torch. `fused` is one GEMM, then one Triton kernel: what drafters here do. Each is timed as it
is called and as a CUDA graph, in which engines run it. Median of rounds, in turns; microseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from outrider._version import __version__
from outrider.drafting import kernel
from outrider.drafting.config import DraftConfig
from outrider.drafting.model import DFlash
from outrider.drafting.rotary import norm_rotate

RESULT = Path(__file__).with_name("results") / "kernel.json"
ROUNDS = 15
#: Layers, hidden width, key-value heads, head width.
SHAPES = {"qwen3-8b": (5, 4096, 8, 128), "smollm2-135m": (2, 576, 3, 64)}
#: Rows: a step at concurrency 1, one at 32, and a prompt.
ROWS = (8, 256, 4096)


def drafter(layers: int, hidden: int, heads: int, width: int) -> DFlash:
    """A drafter of that shape; the parts that are not timed are small."""
    return DFlash(
        DraftConfig(
            hidden_size=hidden,
            intermediate_size=64,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=width,
            num_target_layers=36,
            vocab_size=64,
            mask_token_id=63,
            target_layer_ids=(1,),
        )
    )


def ways(model: DFlash, rows: int) -> dict[str, Callable[[], Any]]:
    """The three ways, on the same rows."""
    config, weight = model.config, model.fc.weight
    context = torch.randn(1, rows, config.hidden_size, device=weight.device, dtype=weight.dtype)
    cos, sin = model.rotary(torch.arange(rows, device=weight.device)[None])
    together, _ = model._context_projection()
    gains = torch.stack([layer.k_norm.weight for layer in model.attentions()])
    shape = (1, rows, config.num_hidden_layers, 2, config.num_key_value_heads, config.head_dim)

    def at_once(finish: Callable[..., Any]) -> Any:
        return finish(functional.linear(context[0], together).view(shape), gains, config.rms_norm_eps, cos, sin)

    def by_layers() -> list[tuple[Tensor, Tensor]]:
        found = []
        for layer in model.attentions():
            keys = layer.k_proj(context).unflatten(-1, (-1, config.head_dim)).transpose(1, 2)
            values = layer.v_proj(context).unflatten(-1, (-1, config.head_dim)).transpose(1, 2)
            turned = norm_rotate(keys, layer.k_norm.weight, config.rms_norm_eps, cos[:, None], sin[:, None])
            found.append((turned, values))
        return found

    return {
        "layers": by_layers,
        "torch": partial(at_once, kernel.plain),
        "fused": partial(at_once, kernel.split_context),
    }


def timed(call: Callable[[], Any], device: str) -> float:
    """Microseconds of one call, over as many as take some milliseconds."""
    count = 20
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count * 1e6
    start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start_event.record()
    for _ in range(count):
        call()
    end_event.record()
    torch.cuda.synchronize()
    return float(start_event.elapsed_time(end_event)) / count * 1e3


def graphed(call: Callable[[], Any]) -> Callable[[], None]:
    """The call as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def agree(calls: dict[str, Callable[[], Any]]) -> None:
    """All ways give the same keys and values."""
    whole = calls["layers"]()
    for name in ("torch", "fused"):
        for index, parts in enumerate(zip(*calls[name](), strict=True)):
            for got, expected in zip(parts, whole[index], strict=True):
                torch.testing.assert_close(got, expected, atol=3e-2, rtol=3e-2)


@torch.no_grad()
def measure(name: str, rows: int, device: str, dtype: torch.dtype) -> list[dict[str, Any]]:
    """Rows of the result for one shape."""
    model = drafter(*SHAPES[name]).to(device, dtype)
    calls = ways(model, rows)
    agree(calls)
    modes = {"called": calls}
    if device != "cpu":
        modes["graph"] = {way: graphed(call) for way, call in calls.items()}
    found = []
    for mode, each in modes.items():
        times: dict[str, list[float]] = {way: [] for way in each}
        for _ in range(ROUNDS + 3):
            for way, call in each.items():
                times[way].append(timed(call, device))
        for way, values in times.items():
            kept = sorted(values[3:])
            row = {"drafter": name, "rows": rows, "mode": mode, "way": way, "us": round(statistics.median(kept), 2)}
            found.append(row | {"low": round(kept[0], 2), "high": round(kept[-1], 2)})
    return found


def ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Fused over layer by layer, for each shape, count of rows and mode."""
    time_of = {(row["drafter"], row["rows"], row["mode"], row["way"]): row["us"] for row in rows}
    return {
        f"us_{name}_rows{count}_{mode}_fused_over_layers": round(us / time_of[name, count, mode, "layers"], 4)
        for (name, count, mode, way), us in time_of.items()
        if way == "fused"
    }


def main() -> None:
    """Measure, print, and on CUDA write the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    smoke = chosen.device == "cpu"
    found = []
    for name in ("smollm2-135m",) if smoke else SHAPES:
        for rows in (8,) if smoke else ROWS:
            found += measure(name, rows, chosen.device, torch.float32 if smoke else torch.bfloat16)
    for row in found:
        print("{drafter:14} {rows:5} rows  {mode:7} {way:7} {us:9.2f} µs  ({low}–{high})".format(**row))
    if smoke:
        return
    versions = {"outrider": __version__, "python": platform.python_version(), "torch": torch.__version__}
    machine = f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores"
    result = {"machine": machine, "versions": versions, "rounds": ROUNDS, "rows": found, "ratios": ratios(found)}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
