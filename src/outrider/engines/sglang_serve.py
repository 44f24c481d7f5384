"""SGLang's own server, its key kept out of its log. Run by the engine's interpreter; imports nothing of Outrider.

Usage: ``python sglang_serve.py KEY_FILE FLAG…``. The file (mode 0600) is a configuration that SGLang reads, holding
``{"api-key": KEY}``; SGLang would otherwise want the key on its command line, which everybody on the machine can read.
At its start it logs all its arguments, the key among them: every record of this process is searched for it.
"""

import json
import logging
import runpy
import sys
from pathlib import Path
from typing import Any

_HIDDEN = "***"


def hide(secret: str) -> None:
    """Have every log record made from now on show ``***`` in the place of a secret."""
    make = logging.getLogRecordFactory()

    def factory(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        text = record.getMessage()
        if secret in text:
            record.msg, record.args = text.replace(secret, _HIDDEN), ()
        return record

    logging.setLogRecordFactory(factory)


if __name__ == "__main__":
    # Python looks for modules beside its script first, and a sglang.py lies here.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    key_file, *flags = sys.argv[1:]
    hide(json.loads(Path(key_file).read_text())["api-key"])
    sys.argv = ["sglang.launch_server", "--config", key_file, *flags]
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
