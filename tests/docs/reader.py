"""Follows a page as a reader does: one shell, block after block, in an empty directory, with an Outrider of its own.

Pages speak of the default ports. Where they stand behind ``127.0.0.1:``, the private Outrider's ports are put instead.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.docs.page import ROOT, SHELL, Block, Page
from tests.e2e.outrider_process import Outrider

_SECONDS = 240
_WORD = re.compile(r"[^\W\d][\w./-]+")
_START = """\
set -eEuo pipefail
trap 'echo "exit $? at: $BASH_COMMAND" >&2' ERR
"""


class Lost(AssertionError):
    """A reader who does as the page says gets something else than the page says."""


def follow(page: Page, outrider: Outrider, directory: Path, gguf: Path) -> None:
    """Do everything a page says.

    Args:
        outrider: private; what the page starts is left to whoever made it.
        directory: empty; where the page's files and outputs lie.
        gguf: a model file, copied under the names of those that the page's reader has. Directories are the checkout's.

    Raises:
        Lost: a command fails (or succeeds where the page says that it fails), or prints something else than is shown.
    """
    for name in page.given:
        if name.endswith("/"):
            shutil.copytree(ROOT / name, directory / name)
        else:
            shutil.copyfile(gguf, directory / name)
    outputs = directory / ".outputs"
    outputs.mkdir()
    script = _START + "".join(_step(block, outrider, outputs) for block in page.blocks if block.not_run is None)
    path = f"{Path(sys.executable).parent}{os.pathsep}{outrider.env['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=directory,
        env=outrider.env | {"PATH": path, "COLUMNS": "100"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=_SECONDS,
    )
    printed = {int(file.name): file.read_text(errors="replace") for file in outputs.iterdir()}
    if done.returncode:
        line = max(printed, default=0)
        raise Lost(f"{page}:{line}: exit {done.returncode}\n{printed.get(line, '')}")
    _compare(page, printed)


def _step(block: Block, outrider: Outrider, outputs: Path) -> str:
    """The block as a piece of the shell script."""
    text = block.text.replace("127.0.0.1:8080", f"127.0.0.1:{outrider.port}")
    text = text.replace("127.0.0.1:8081", f"127.0.0.1:{outrider.api_port}")
    if block.language == "yaml":
        list(yaml.safe_load_all(text))
    if block.file is not None:
        file = shlex.quote(block.file)
        return f'mkdir -p "$(dirname {file})"\nprintf %s {shlex.quote(text)} > {file}\n'
    if block.language not in (*SHELL, "python"):
        return ""
    if block.language == "python":
        text = f"python -c {shlex.quote(text)}\n"
    opened = f"exec >{shlex.quote(str(outputs / str(block.line)))} 2>&1\n"
    if not block.fails:
        return f"{opened}{text}"
    # A subshell that may fail, between commands that may not.
    wanted = f'test "$status" = {block.fails} || {{ echo "exit $status instead of {block.fails}"; exit 1; }}\n'
    return f"{opened}trap - ERR; set +e\n( set -e\n{text})\nstatus=$?\n{wanted}{_START}"


def _compare(page: Page, printed: dict[int, str]) -> None:
    """What a ``text`` block after a command shows: the first word of each of its lines was printed."""
    for block, shown in zip(page.blocks, page.blocks[1:], strict=False):
        output = printed.get(block.line)
        if output is None or shown.language != "text" or shown.not_run is not None:
            continue
        words = [match[0] for line in shown.text.splitlines() if (match := _WORD.search(line))]
        if missing := [word for word in words if word not in output]:
            raise Lost(f"{page}:{shown.line}: {missing[0]!r} was not printed by line {block.line}:\n{output}")
