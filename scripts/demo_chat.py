"""One streamed answer with the official client, and what it took. Used by ``scripts/demo``."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import httpx
import openai
from rich.console import Console
from rich.table import Table

from outrider.client.http import Client

_PROMPT = "Write two sentences about the sea."
_SOURCE_LINES = 14


def main(name: str) -> None:
    """Chat, then show figures and source."""
    console = Console(highlight=False)
    with Client() as client:
        view, plan = client.endpoint(name), client.revision(name)["plan"]
    console.print(f"\n[bold]You:[/bold] {_PROMPT}\n[bold]{name}:[/bold] ", end="")
    ttft, itl, tokens, seconds = _stream(view["url"], name)
    table = Table(title="\nWhat it took", title_justify="left", show_header=False, box=None)
    overhead = _overhead(view["url"], name)
    why = next(d["reason"] for d in plan["decisions"] if d["choice"] == "recipe")
    for label, value in (
        ("time to first token", f"{ttft * 1000:.0f} ms"),
        ("inter-token latency", f"{itl * 1000:.1f} ms"),
        ("output tokens/s", f"{tokens / seconds:.0f}"),
        ("gateway overhead", f"{overhead:.0f} µs (median of 20 requests, its own measure)"),
        ("engine", f"{plan['engine']} {plan['engine_version']}"),
        ("recipe", f"{plan['recipe']}: {why}"),
        ("url", view["url"]),
    ):
        table.add_row(label, value)
    console.print(table)
    source = Path(view["source"])
    console.print(f"\n[bold]serve.py[/bold], exactly what runs ({source}):\n")
    print("\n".join(source.read_text().splitlines()[:_SOURCE_LINES]), "\n…")


def _stream(url: str, name: str) -> tuple[float, float, int, float]:
    start = time.perf_counter()
    first = last = start
    tokens = 0
    with openai.OpenAI(base_url=url, api_key="unused") as client:
        messages = [{"role": "user", "content": _PROMPT}]
        options = {"stream_options": {"include_usage": True}, "max_tokens": 80}
        for chunk in client.chat.completions.create(model=name, messages=messages, stream=True, **options):  # type: ignore[call-overload]
            if chunk.choices and chunk.choices[0].delta.content:
                last = time.perf_counter()
                first = last if first == start else first
                print(chunk.choices[0].delta.content, end="", flush=True)
            if chunk.usage:
                tokens = chunk.usage.completion_tokens
    print()
    return first - start, (last - first) / max(1, tokens - 1), tokens, last - start


def _overhead(url: str, name: str) -> float:
    """Median microseconds that the gateway says it spent (``Server-Timing``), over small requests."""
    body = {"model": name, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    found = []
    with httpx.Client() as client:
        for _ in range(20):
            timing = client.post(f"{url}/chat/completions", json=body).headers.get("server-timing", "")
            if match := re.search(r"gateway;dur=([\d.]+)", timing):
                found.append(float(match[1]) * 1000)
    return sorted(found)[len(found) // 2]


if __name__ == "__main__":
    main(sys.argv[1])
