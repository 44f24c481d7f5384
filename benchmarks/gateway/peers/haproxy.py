"""HAProxy (C): balances and forwards, checks no key and reads no body. Configured by ``haproxy.cfg``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.gateway.peers import Command, Place

NAME = "haproxy"
INSTALL = "apt-get install haproxy"

_TEMPLATE = Path(__file__).with_name("haproxy.cfg")


def version() -> str | None:
    """What ``haproxy -v`` says."""
    found = _program()
    if found is None:
        return None
    words = subprocess.run([found, "-v"], capture_output=True, text=True, check=True).stdout.split()
    return words[2]  # "HAProxy version 2.6.12-1+deb12u3 2025/10/03 - …"


def command(place: Place) -> Command:
    """One process, one thread, in the foreground."""
    servers = "\n".join(f"    server worker{i} 127.0.0.1:{port}" for i, port in enumerate(place.engines))
    text = _TEMPLATE.read_text().replace("{port}", str(place.port)).replace("{servers}", servers)
    configuration = place.directory / "haproxy.cfg"
    configuration.write_text(text)
    return [_program() or "haproxy", "-db", "-f", str(configuration)], {}


def _program() -> str | None:
    return shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
