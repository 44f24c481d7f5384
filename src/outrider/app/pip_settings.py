"""pip's configuration, said to uv, which does not read it.

Whoever has set up pip for a mirror, a directory of wheels or a proxy must not do so twice. pip itself is asked
(``pip config list``: files of the machine, the user and the virtual environment, then ``PIP_*``), so its rules of
precedence are pip's. What may hold a password travels in variables, since a command line is public. A variable of uv
that is set already wins.

Sources: https://pip.pypa.io/en/stable/topics/configuration/, https://docs.astral.sh/uv/reference/environment/.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.request import url2pathname

from outrider.errors import EnvironmentFailed

_SECTIONS = ("global", "install", ":env:")
"""Of ``pip config list``, the later wins; ``:env:`` is what ``PIP_*`` says."""
_VARIABLES: Mapping[str, tuple[str, str]] = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "constraint": ("UV_CONSTRAINT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "proxy": ("ALL_PROXY", " "),
    "keyring-provider": ("UV_KEYRING_PROVIDER", " "),
}
"""pip's option → uv's variable, and what stands between its parts where there are several."""
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "UV_DEFAULT_INDEX": ("UV_INDEX_URL",),
    "UV_INDEX": ("UV_EXTRA_INDEX_URL",),
    "ALL_PROXY": ("HTTPS_PROXY", "https_proxy", "all_proxy"),
}
_TRUE = ("1", "y", "yes", "t", "true", "on")


def uv_variables(settings: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """What uv must be told so that it finds what pip would find.

    Args:
        settings: pip's options by name, as :func:`pip_settings` gives them.
        environ: the environment uv will run in; what it already says for uv is not overruled.
    """
    said: dict[str, str] = {}
    for option, (variable, separator) in _VARIABLES.items():
        if parts := settings.get(option, "").split():
            said[variable] = separator.join(parts)
    if "UV_INDEX" in said:
        # pip takes the best version of all its indexes; uv by itself only looks into the first that has the name.
        said["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    timeouts = [settings[name] for name in ("default-timeout", "timeout") if name in settings]
    if timeouts:
        said["UV_HTTP_TIMEOUT"] = str(round(float(timeouts[-1])))
    return {
        name: value
        for name, value in said.items()
        if not any(environ.get(known) for known in (name, *_SYNONYMS.get(name, ())))
    }


def uv_flags(settings: Mapping[str, str]) -> list[str]:
    """Flags of ``uv pip install`` for those of pip's options that uv reads from no variable; none holds a secret."""
    found = ["--no-index"] if settings.get("no-index", "").lower() in _TRUE else []
    if settings.get("pre", "").lower() in _TRUE:
        found += ["--prerelease", "allow"]
    for option in ("only-binary", "no-binary"):
        for name in settings.get(option, "").replace(",", " ").split():
            found += [f"--{option}", name]
    return found


def parse(listing: str) -> dict[str, str]:
    """Options by name from what ``pip config list`` prints: one ``section.option='value'`` a line."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        name, equals, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if not equals or section not in found:
            continue
        try:
            found[section][option] = str(ast.literal_eval(value))
        except (ValueError, SyntaxError):
            continue
    return found["global"] | found["install"] | found[":env:"]


def pip_settings() -> dict[str, str]:
    """pip's options here, asked of the pip in Outrider's Python; none where it has no pip.

    Raises:
        EnvironmentFailed: pip cannot read its own configuration; without it, uv would look in the wrong places.
    """
    relevant = tuple(
        sorted((k, v) for k, v in os.environ.items() if k.startswith(("PIP_", "XDG_CONFIG")) or k == "HOME")
    )
    return dict(_asked(relevant))


@cache
def _asked(_environ: tuple[tuple[str, str], ...]) -> dict[str, str]:
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode and "No module named pip" not in done.stderr:
        said = " ".join((done.stderr or done.stdout).split())
        raise EnvironmentFailed(
            "pip's configuration cannot be read",
            why=said.removesuffix(".") or f"pip config list ended with code {done.returncode}",
            remedy=f"See which files pip reads: {sys.executable} -m pip config debug",
        )
    return parse(done.stdout) if done.returncode == 0 else {}


def constraints(variables: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """The lines of the constraint files that uv will obey, without comments, sorted: they bound every version."""
    lines: set[str] = set()
    for name in (variables.get("UV_CONSTRAINT") or environ.get("UV_CONSTRAINT") or "").split():
        path = Path(url2pathname(name.removeprefix("file://")))
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            text = name  # a URL: its name must do
        lines |= {line.partition(" #")[0].strip() for line in text.splitlines()}
    return sorted(line for line in lines if line and not line.startswith("#"))
