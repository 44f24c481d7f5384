"""From real requests to hostile ones. Everything is drawn from one generator: a seed is a case."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import NamedTuple

from tests.fuzz.seeds import BODIES, LINES, SEEDS, SIZES, SMUGGLED, post

_NASTY = (b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\n\n", b"\x00", b" ", b"\t", b"\x0b", b":", b"\xff", b"0", b",", b'"')
_LENGTH = re.compile(rb"(?i)content-length: (\d+)")
_CHUNK = re.compile(rb"(?<=\r\n)[0-9a-f]+(?=\r\n)")
_VERSIONS = (b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1 ", b"HTTP/11", b"HTP/1.1")
_METHODS = (
    b"GET",
    b"HEAD",
    b"post",
    b"PATCH",
    b"CONNECT",
    b"PRI",
    b"TRACE",
    b"M-SEARCH",
    b"POST ",
    b"\tPOST",
    b"P\x00",
)
_TARGETS = (
    *(b"/v1/completions/../../update_weights_from_disk", b"//v1/completions", b"/v1/%63ompletions", b"*", b"/"),
    *(b"/v1/completions#a", b"/e/site/a b", b"/e/site/\x7f\xe9", b"http://gateway", b"//gateway/e/site/", b"/e/site?a"),
    *(b"http://a@b:1/v1/completions", b"/e/site/../tiny/", b"/v1/models/%00", b"a:b", b"/e/", b"/e//x", b"/" * 999),
)


class Case(NamedTuple):
    """What a client sends: ``data``, cut into segments at ``cuts``."""

    data: bytes
    cuts: tuple[int, ...] = ()

    @property
    def segments(self) -> list[bytes]:
        """The pieces, in order."""
        edges = [0, *self.cuts, len(self.data)]
        return [self.data[start:end] for start, end in pairwise(edges) if start < end]


def case(rng: Random) -> Case:
    """One case: one to four requests in a row, mutated up to four times, in up to five segments."""
    data = b"".join(rng.choice(SEEDS) for _ in range(rng.choice((1, 1, 2, 2, 3, 4))))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        data = rng.choice(MUTATIONS)(rng, data)
    if rng.random() < 0.3:
        data += SMUGGLED
    if len(data) < 2:
        return Case(data)
    return Case(data, tuple(sorted(rng.randrange(1, len(data)) for _ in range(rng.choice((0, 0, 1, 2, 4))))))


def insert_line(rng: Random, data: bytes) -> bytes:
    """A header line where one may stand, or where the body is."""
    at = _place(rng, data, b"\r\n")
    return data[:at] + b"\r\n" + rng.choice(LINES) + data[at:]


def repeat_line(rng: Random, data: bytes) -> bytes:
    """A line that is there already, once more."""
    lines = data.split(b"\r\n")
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"\r\n".join(lines)


def drop_line(rng: Random, data: bytes) -> bytes:
    """A line less."""
    lines = data.split(b"\r\n")
    del lines[rng.randrange(len(lines))]
    return b"\r\n".join(lines)


def bare_end(rng: Random, data: bytes) -> bytes:
    """Another line end in the place of CRLF."""
    at = _place(rng, data, b"\r\n")
    return data[:at] + rng.choice((b"\n", b"\r", b"\r\r\n", b"\n\r", b"", b"\r\n ", b" \r\n")) + data[at + 2 :]


def length(rng: Random, data: bytes) -> bytes:
    """Another content length."""
    found = list(_LENGTH.finditer(data))
    if not found:
        return insert_line(rng, data)
    one = rng.choice(found)
    value = int(one[1])
    wrong = rng.choice(
        (b"%d" % (value + 1), b"%d" % max(0, value - 1), b"0", b"+%d" % value, b"%d,%d" % (value, value))
    )
    return data[: one.start(1)] + wrong + data[one.end(1) :]


def chunk_size(rng: Random, data: bytes) -> bytes:
    """Another size of a chunk."""
    found = list(_CHUNK.finditer(data))
    if not found:
        return length(rng, data)
    one = rng.choice(found)
    return (
        data[: one.start()] + rng.choice((*SIZES, one[0].upper(), b"000" + one[0], one[0] + b";x")) + data[one.end() :]
    )


def both_framings(rng: Random, data: bytes) -> bytes:
    """A length and chunks at once, or twice the same."""
    lines = [b"Transfer-Encoding: chunked", b"Content-Length: %d" % rng.choice((0, 3, 5, 71, len(data)))]
    rng.shuffle(lines)
    at = data.find(b"\r\n\r\n")
    return data[:at] + b"\r\n" + b"\r\n".join(lines[: rng.choice((1, 2))]) + data[at:] if at >= 0 else data


def nasty_byte(rng: Random, data: bytes) -> bytes:
    """A byte that means something to a parser, put in or over another."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_NASTY) + data[at + rng.choice((0, 1)) :]


def flip(rng: Random, data: bytes) -> bytes:
    """One bit."""
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]


def cut(rng: Random, data: bytes) -> bytes:
    """A piece less, mostly the end."""
    start = rng.randrange(len(data) + 1)
    return data[:start] if rng.random() < 0.5 else data[:start] + data[start + rng.randrange(40) :]


def repeat(rng: Random, data: bytes) -> bytes:
    """A piece twice."""
    start = rng.randrange(len(data) + 1)
    end = start + rng.randrange(60)
    return data[:end] + data[start:end] + data[end:]


def huge(rng: Random, data: bytes) -> bytes:
    """A head around the limit: one long line, or many."""
    filling = rng.choice(
        (b"X-Long: " + b"y" * rng.choice((60_000, 65_400, 70_000)), b"\r\n".join([b"X-Many: z"] * 7000))
    )
    at = _place(rng, data, b"\r\n")
    return data[:at] + b"\r\n" + filling + data[at:]


def request_line(rng: Random, data: bytes) -> bytes:
    """Another method, target or version."""
    line, end, rest = data.partition(b"\r\n")
    words = line.split(b" ")
    place = rng.randrange(3)
    words[place : place + 1] = [rng.choice((_METHODS, _TARGETS, _VERSIONS)[place])]
    return b" ".join(words) + end + rest


def body(rng: Random, data: bytes) -> bytes:
    """A further request whose JSON is at its edge, with the right length."""
    path = rng.choice(("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"))
    more = post(path, rng.choice(BODIES))
    return more + data if rng.random() < 0.5 else data + more


MUTATIONS: tuple[Callable[[Random, bytes], bytes], ...] = (
    *(insert_line, insert_line, insert_line, repeat_line, drop_line, bare_end, length, chunk_size, both_framings),
    *(nasty_byte, nasty_byte, flip, cut, repeat, huge, request_line, body, body),
)


def _place(rng: Random, data: bytes, what: bytes) -> int:
    """Where it stands, at random, more often in the first head; the end where it stands nowhere."""
    found = [match.start() for match in re.finditer(re.escape(what), data)]
    first = data.find(b"\r\n\r\n")
    if rng.random() < 0.6:
        found = [at for at in found if at <= first] or found
    return rng.choice(found) if found else len(data)
