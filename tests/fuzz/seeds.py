"""Real requests, as curl and the official clients send them, and the pieces that attacks on framing are made of."""

from __future__ import annotations

import json

MODEL = "tiny"
CUSTOM = "site"


def post(path: str, body: bytes, *lines: str) -> bytes:
    """A POST with a length."""
    head = [f"POST {path} HTTP/1.1", "Host: gateway:8080", "Content-Type: application/json", *lines]
    return "\r\n".join([*head, f"Content-Length: {len(body)}"]).encode() + b"\r\n\r\n" + body


def chunked(path: str, body: bytes, *lines: str, size: int = 23) -> bytes:
    """A POST in chunks of ``size`` bytes."""
    head = [f"POST {path} HTTP/1.1", "Host: gateway:8080", "Content-Type: application/json", *lines]
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return "\r\n".join([*head, "Transfer-Encoding: chunked"]).encode() + b"\r\n\r\n" + framed + b"0\r\n\r\n"


def _chat(**fields: object) -> bytes:
    return json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "héllo"}], **fields}).encode()


_OPENAI = (
    "Accept: application/json",
    "Accept-Encoding: gzip, deflate",
    "Connection: keep-alive",
    "User-Agent: OpenAI/Python 3.57.0",
    "X-Stainless-Lang: python",
    "x-stainless-read-timeout: 600",
    "Authorization: Bearer good",
)
_ANTHROPIC = ("x-api-key: good", "anthropic-version: 2023-06-01", "User-Agent: Anthropic/Python 2.14.0")

SEEDS = (
    post("/v1/chat/completions", _chat(max_tokens=5), *_OPENAI),
    post("/v1/chat/completions", _chat(stream=True), *_OPENAI),
    post("/v1/chat/completions?beta=true", _chat(stream=True, stream_options={"include_usage": True}), *_OPENAI),
    post("/v1/messages", _chat(max_tokens=9, system="be short"), *_ANTHROPIC),
    post("/v1/completions", json.dumps({"model": MODEL, "prompt": ["a", "b"]}).encode(), *_OPENAI),
    post("/v1/responses", json.dumps({"model": MODEL, "input": [{"role": "user", "content": []}]}).encode(), *_OPENAI),
    post("/v1/embeddings", json.dumps({"model": MODEL, "input": "x"}).encode(), "Expect: 100-continue"),
    post("/v1/chat/completions", _chat(), "Outrider-Affinity-Key: a", "X-Request-Id: mine-1"),
    post("http://gateway:8080/v1/completions?x=1", json.dumps({"model": MODEL, "prompt": "a"}).encode()),
    chunked("/v1/chat/completions", _chat(stream=True), *_OPENAI),
    chunked("/v1/completions", json.dumps({"model": MODEL, "prompt": "a" * 99}).encode(), "TE: trailers", size=40),
    post(f"/e/{CUSTOM}/hook?a=b", b"a=1&b=2", "Cookie: a=b", "Connection: X-Mine", "X-Mine: 1"),
    chunked(f"/e/{CUSTOM}/upload", bytes(range(256)), "X-Mine: 2"),
    f"PUT /e/{CUSTOM}/file%20name HTTP/1.1\r\nHost: gateway\r\nContent-Length: 3\r\n\r\nabc".encode(),
    f"GET /e/{CUSTOM}/ HTTP/1.1\r\nHost: gateway\r\nAccept: */*\r\nRange: bytes=0-1\r\n\r\n".encode(),
    f"HEAD /e/{CUSTOM}/a HTTP/1.1\r\nHost: gateway\r\n\r\n".encode(),
    f"DELETE /e/{CUSTOM}/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode(),
    b"GET /v1/models HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer good\r\n\r\n",
    b"GET /healthz HTTP/1.0\r\n\r\n",
    b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nOrigin: http://a\r\n\r\n",
    b"HEAD /metrics HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n",
)

SMUGGLED = b"POST /v1/completions HTTP/1.1\r\nHost: gateway\r\nContent-Length: 32\r\n\r\n" + (
    b'{"model":"tiny","prompt":"evil"}'
)
"""What an attacker would have a replica take for a request of its own."""

LINES = (
    *(b"Content-Length: " + value for value in (b"0", b"5", b"+5", b"-1", b"0x5", b"5, 5", b"5 5", b"05", b"", b"1e1")),
    *(b"Content-Length: " + value for value in (b"18446744073709551616", b"99999999", b"5\t", b"5;a", b"5\x0b")),
    *(b"Transfer-Encoding: " + value for value in (b"chunked", b"Chunked", b"chunked, chunked", b"identity", b"gzip")),
    *(b"Transfer-Encoding: " + value for value in (b"gzip, chunked", b"chunked, gzip", b"xchunked", b"\x0bchunked")),
    *(b"Transfer-Encoding" + rest for rest in (b" : chunked", b":\tchunked", b":chunked;q=1", b"\x00: chunked")),
    b"Transfer-Encoding:\r\n chunked",
    b"X: y\r\n folded",
    b"X: y\r\n\tContent-Length: 5",
    b"X: a\rContent-Length: 0",
    b"X: a\nTransfer-Encoding: chunked",
    b" Content-Length: 5",
    b"Content-Length : 5",
    b"Content_Length: 5",
    b"Host: elsewhere",
    b"Host: a b",
    b"Connection: close",
    b"Connection: close, Content-Length",
    b"Connection: Host, X-Request-Id, Authorization",
    b"Connection: Content-Type\r\nConnection: X-Other\r\nX-Other: 1",
    b"Keep-Alive: timeout=5",
    b"Proxy-Connection: keep-alive",
    b"Authorization: Bearer other",
    b"x-api-key: other",
    b"X-Request-Id: a\x7f",
    b"X-Latin: \xe9\xff\x80",
    b"X-Empty:",
    b": no name",
    b"no colon",
    b"Expect: 100-continue",
    b"Expect: something",
    b"Trailer: Content-Length",
    b"Accept-Encoding: br",
    b"HTTP/1.1 200 OK",
)
"""Header lines that are meant to be read in two ways."""

SIZES = (b"0", b"00", b"-1", b"+1", b"0x1", b"1;a=b", b"1 ", b" 1", b"", b"FFFFFFFFFFFFFFFF", b"1" * 20, b"g", b"1\n")
"""Sizes of a chunk, hardly one of them right."""

BODIES = (
    b'{"model":"tiny","model":"other","prompt":"a"}',
    b'{"model":"tiny","prompt":"\\ud800"}',
    b'{"model":"\\ud800","prompt":"a"}',
    b'{"model":"tiny","messages":[{"role":"user","content":"\\ud800\\udc00\\ud800"}],"stream":true}',
    b'{"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"\\udfff"}]}]}',
    b'{"model":"tiny","messages":"\\ud912","user":"\\ud912"}',
    b'{"model":"tiny","messages":' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"model":"tiny","messages":' + b'{"content":' * 400 + b"1" + b"}" * 400 + b"}",
    b'{"model":"tiny","max_tokens":' + b"9" * 400 + b"}",
    b'{"model":"tiny","max_tokens":1e400,"temperature":NaN,"seed":-Infinity}',
    b'{"model":"tiny","max_tokens":-5,"stream":1,"stream_options":[]}',
    b'{"model":"tiny","stream":true,"stream_options":null}',
    b'{"model":"tiny","stream":true,"stream_options":{"include_usage":false,"x":"\\ud800"}}',
    b'{"model":"tiny","stream":true}\r\n\t ',
    b'{"model":"tiny","stream":true}\x0b',
    b'{"model":"tiny","stream":true}\x00',
    b'\xef\xbb\xbf{"model":"tiny"}',
    '{"model":"tiny"}'.encode("utf-16"),
    b'{"model":"tiny","tools":{},"response_format":[],"messages":{"content":5}}',
    b'{"model":"tiny","input":[null,1,{"content":null}],"prompt":[[1,2],3],"tools":"x"}',
    b'{"model":"tiny:adapter","messages":[null]}',
    b'{"model":["tiny"]}',
    b"null",
    b"",
)
"""JSON at its edges."""
