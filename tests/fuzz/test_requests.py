"""A fixed number of hostile requests, and everything that was once found. ``make fuzz`` goes on for longer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.fuzz import mutations
from tests.fuzz.mutations import Case
from tests.fuzz.oracle import Finding, compare, target
from tests.fuzz.reference import read
from tests.fuzz.seeds import SEEDS, SMUGGLED

CASES = 2000
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.http"))


async def test_every_seed_reaches_what_it_is_meant_for() -> None:
    async with target() as gateway:
        for seed in SEEDS:
            [meant] = read(seed)
            await gateway.judge(Case(seed))
            served = (
                not meant.target.startswith((b"/v1/models", b"/healthz", b"/metrics")) and meant.method != "OPTIONS"
            )
            assert len(gateway.asked) == served


@pytest.mark.parametrize("start", range(0, CASES, 500))
async def test_mutated_requests(start: int) -> None:
    async with target() as gateway:
        for number in range(start, start + 500):
            case = mutations.case(Random(number))
            try:
                await gateway.judge(case)
            except Finding as finding:
                pytest.fail(f"case {number}: {finding}\nsent: {case.segments}")


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
async def test_what_was_found_once(path: Path) -> None:
    async with target() as gateway:
        data = path.read_bytes()
        await gateway.judge(Case(data))
        await gateway.judge(Case(data, tuple(range(1, len(data)))))


async def test_two_requests_cut_in_two_at_every_byte() -> None:
    data = SEEDS[10] + SEEDS[13]
    async with target() as gateway:
        for at in range(1, len(data)):
            await gateway.judge(Case(data, (at,)))
            assert len(gateway.asked) == 2


async def test_the_smuggled_request_never_arrives() -> None:
    """The classics, each with a body that is a request of its own to whoever reads the framing in the other way."""
    chunks = b"0\r\n\r\n" + SMUGGLED
    head = b"POST /e/site/ HTTP/1.1\r\nHost: a\r\n"
    length = b"Content-Length: %d\r\n" % len(chunks)
    async with target() as gateway:
        for lines in (
            length + b"Transfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\n" + length,
            length + b"Transfer-Encoding : chunked\r\n",
            length + b"Transfer-Encoding:\x0bchunked\r\n",
            length + b"Transfer-Encoding: xchunked\r\n",
            length + b"X: y\r\n Transfer-Encoding: chunked\r\n",
            length + b"X: y\nTransfer-Encoding: chunked\r\n",
            b"Content-Length: 0\r\n" + length,
            b"Content-Length: 0, %d\r\n" % len(chunks),
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
        ):
            await gateway.judge(Case(head + lines + b"\r\n" + chunks))
            assert not gateway.asked, lines


def test_the_comparison_sees_a_difference() -> None:
    [meant] = read(SEEDS[0])
    own = ((b"host", b"127.0.0.1"), (b"authorization", b"Bearer engine-key"))
    passed = [header for header in meant.headers if header[0] not in {b"host", b"authorization", b"connection"}]
    got = meant._replace(headers=(*own, *passed))
    assert compare(meant, got) == ""
    assert compare(meant, got._replace(method="PUT")) == "another method"
    assert compare(meant, got._replace(target=b"/v1/completions")).startswith("another target")
    assert compare(meant, got._replace(body=got.body + b" ")) == "another body"
    assert compare(meant, got._replace(headers=got.headers[2:])) == "the engine's host or key is missing"
    assert compare(meant, got._replace(headers=(*got.headers, (b"x-new", b"1")))).startswith("other headers")
    assert compare(meant, got._replace(headers=got.headers[:-2])).startswith("other headers")
