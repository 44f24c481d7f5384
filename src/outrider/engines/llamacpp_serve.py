"""llama.cpp's own OpenAI server, as a process of its own. Run by the engine's interpreter; imports nothing of Outrider.

Usage: ``python llamacpp_serve.py CONFIG.json`` (mode 0600: it holds the key). The server object has no ``close``: the
process is its life. SIGTERM ends it.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

PORT_TAKEN = 97


def main() -> int:
    """Set the parameters by name, start the server, wait to be ended."""
    config = json.loads(Path(sys.argv[1]).read_text())
    leave = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leave.set())
    import xllamacpp

    params = xllamacpp.CommonParams()
    for dotted, value in config["params"].items():
        target = params
        *path, last = dotted.split(".")
        for name in path:
            target = getattr(target, name)
        if not hasattr(target, last):
            print(f"llama.cpp has no parameter {dotted!r}", file=sys.stderr, flush=True)
            return 2
        if isinstance(value, dict):
            value = getattr(getattr(xllamacpp, value["enum"]), value["member"])
        setattr(target, last, set(value) if isinstance(getattr(target, last), set) else value)
    server = xllamacpp.Server(params)
    print(f"listening on {server.listening_address}", file=sys.stderr, flush=True)
    leave.wait()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the server's threads have no end of their own
