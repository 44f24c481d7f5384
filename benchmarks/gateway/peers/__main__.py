"""Prints what the extra ``bench-peers`` installs: it goes into an environment without Outrider."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
print(*project["optional-dependencies"]["bench-peers"])
