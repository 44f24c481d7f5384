"""TLS by files, on a real process."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from outrider.gateway import tls
from tests.gateway.client import Wire, chat, get, serving, table
from tests.gateway.standin import Standin
from tests.gateway.test_tunnel import UPGRADE, Echo


def write(authority: trustme.CA, folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, and its key."""
    made = authority.issue_cert("127.0.0.1", "localhost")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())
    return certificate, key


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """What a client connects with."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def dial(port: int, context: ssl.SSLContext) -> Wire:
    """A connection that speaks TLS."""
    return Wire(*await asyncio.open_connection("127.0.0.1", port, ssl=context))


async def test_requests_streams_and_tunnels_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = tls.context(*write(authority, tmp_path))
    async with Standin() as engine, Echo() as echo, serving() as plain:
        both, other = table([engine]), table([echo.url], name="ws", task="custom")
        both["endpoints"] += other["endpoints"]
        both["replicas"] += [{**other["replicas"][0], "id": "ws0"}]
        secure = type(plain.gateway)()
        port = await secure.start("127.0.0.1", 0, tls=context)
        secure.use(both)
        try:
            wire = await dial(port, trusting(authority))
            for _ in range(2):
                await wire.send(chat(stream=True))
                assert (await wire.reply()).body.endswith(b"data: [DONE]\n\n")
            await wire.send(get("/e/ws/", *UPGRADE))
            assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            await wire.send(b"x" * 200_000)
            assert await wire.reader.readexactly(200_000) == b"x" * 200_000
            wire.close()
            with pytest.raises(ssl.SSLCertVerificationError):
                await dial(port, ssl.create_default_context())
        finally:
            await secure.stop(grace=0)


async def test_sighup_reads_the_files_again(tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    certificate, key = write(old, tmp_path)
    saved = tmp_path / "table.json"
    saved.write_text(json.dumps(table()))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "outrider.gateway", "--port", "0", "--table", str(saved)),
        *("--tls-cert", str(certificate), "--tls-key", str(key)),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(20):
            line = (await process.stderr.readline()).decode()
            assert "listening on https://127.0.0.1:" in line
            port = int(line.rpartition(",")[0].rpartition(":")[2])
            kept = await dial(port, trusting(old))
            write(new, tmp_path)
            process.send_signal(1)
            assert b"certificate read again" in await process.stderr.readline()
            for wire in (kept, await dial(port, trusting(new))):
                await wire.send(get("/healthz"))
                assert (await wire.reply()).status == 200
                wire.close()
            key.write_text("nothing")
            process.send_signal(1)
            assert b"Cannot serve TLS" in await process.stderr.readline()
            (await dial(port, trusting(new))).close()
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("spoilt", ["missing", "nonsense", "mismatch", "encrypted"])
def test_files_that_cannot_be_used_are_one_line(tmp_path: Path, spoilt: str) -> None:
    certificate, key = write(trustme.CA(), tmp_path)
    if spoilt == "missing":
        key.unlink()
    elif spoilt == "nonsense":
        certificate.write_text("nonsense")
    elif spoilt == "mismatch":
        key.write_bytes(trustme.CA().issue_cert("localhost").private_key_pem.bytes())
    else:
        key.write_text(key.read_text().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"))
    command = [sys.executable, "-m", "outrider.gateway", "--port", "0"]
    command += ["--tls-cert", str(certificate), "--tls-key", str(key)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 7
    [line] = done.stderr.splitlines()
    assert "Cannot serve TLS" in line and "--tls-key" in line


def test_both_files_or_none(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "outrider.gateway", "--tls-cert", "x.pem"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "go together" in done.stderr
