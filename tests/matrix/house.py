"""The Outrider that the matrix runs against: two processes, one endpoint, three keys, and files that are wrong."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from outrider.cli.main import run
from outrider.spec.home import Home
from outrider.store.database import open_database
from tests.e2e.outrider_process import MODEL, Outrider, until
from tests.matrix.state import State

_SERVE = Path(__file__).parents[2] / "examples/http_server/serve.py"


@dataclass
class House:
    """One private Outrider.

    Attributes:
        root: everything it may write lies below.
        files: where the bad files are; ``{files}`` in a case.
        keys: secrets by name: ``app`` (inference), ``boss`` (admin), ``narrow`` (only another endpoint).
    """

    root: Path
    outrider: Outrider
    keys: dict[str, str] = field(default_factory=dict)
    _last: State | None = None

    @property
    def files(self) -> Path:
        """Bad files, and a good one."""
        return self.root / "files"

    @property
    def socket(self) -> Path:
        """Of the REST API."""
        return self.outrider.home.api_socket

    def fill(self, text: str) -> str:
        """A case's text with its placeholders filled."""
        places = {"files": self.files, "root": self.root, "port": self.outrider.port, "api": self.outrider.api_port}
        for name, value in places.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def look(self) -> State:
        """What it has now."""
        return State.of(self.root, {"TMPDIR": self.outrider.env["TMPDIR"]})

    def before(self) -> State:
        """What it had after the case before: each case is compared with that."""
        if self._last is None:
            self._last = self.look()
        return self._last

    def check_unchanged(self) -> None:
        """It has what it had. A replica that ends may take some seconds."""
        before, self._last = self.before(), None
        try:
            until(lambda: self.look() == before, seconds=8)
        except AssertionError:
            now = self.look()
            for part in ("rows", "files", "processes", "ports"):
                assert getattr(now, part) == getattr(before, part), f"{part}: {before} → {now}"
        else:
            self._last = before


@dataclass(frozen=True)
class Outcome:
    """What a command came to."""

    code: int
    out: str
    err: str


def command(*words: str) -> Outcome:
    """Run a command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    return Outcome(code, out.getvalue(), err.getvalue())


def open_house() -> House:
    """Start it. Its paths are short, since sockets lie among them."""
    root = Path(tempfile.mkdtemp(prefix="or-matrix-", dir="/tmp"))
    house = House(root, Outrider(root, root / "cache"))
    env = house.outrider.env
    for name in ("tmp", "run", "files", "cache/partial"):
        (root / name).mkdir(parents=True)
    env |= {"TMPDIR": str(root / "tmp"), "XDG_RUNTIME_DIR": str(root / "run")}
    env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(root / "files"), "PIP_CONFIG_FILE": os.devnull}
    env |= {"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"}
    house.outrider.home = Home.from_environment(env)
    house.outrider.run("up")
    house.outrider.run("deploy", str(_SERVE))
    house.outrider.run("endpoint", "create", "--model", MODEL, "--name", "planned", "--no-wait")
    house.outrider.run("endpoint", "stop", "planned")
    until(lambda: not house.outrider.json("endpoint", "info", "planned")["replicas"])
    for name, words in {"app": (), "boss": ("--scope", "admin"), "narrow": ("--endpoint", "elsewhere")}.items():
        house.keys[name] = house.outrider.json("key", "create", name, *words)["secret"]
    _prepare_cold(root)
    return house


def _prepare_cold(root: Path) -> None:
    """A home where nothing ran yet, and one whose store was spoilt."""
    for name in ("cold", "spoilt"):
        home = Home.from_environment({"OUTRIDER_HOME": str(root / name), "XDG_RUNTIME_DIR": str(root / "run")})
        home.create()
        open_database(home.store).close()
    home.store.write_text("no database" * 100)


def close_house(house: House) -> None:
    """End it and remove all it had."""
    house.outrider.remove()
    shutil.rmtree(house.root)
