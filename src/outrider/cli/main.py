"""``outrider``: the command line. Groups are imported when they are used, so that help is instant."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from outrider._version import __version__
from outrider.errors import OutriderError

_COMMANDS = {
    "up": ("outrider.cli.up", "up", "Start controller and gateway where they do not run."),
    "down": ("outrider.cli.up", "down", "Drain and stop every replica, the gateway and the controller."),
    "status": ("outrider.cli.up", "status", "Show what is up."),
    "endpoint": ("outrider.cli.endpoint", "app", "Make, see, change and remove endpoints."),
    "deploy": ("outrider.cli.deploy", "deploy", "Deploy a serve.py as the next revision of its endpoint."),
    "recipe": ("outrider.cli.recipe", "app", "See the recipes that endpoints are planned from."),
    "key": ("outrider.cli.key", "app", "Make, list and revoke API keys."),
}
_EPILOG = (
    "Exit codes: 0 done; 1 internal; 2 bad input; 3 not found; 4 conflict; 5 access denied; 6 unavailable; "
    "7 this machine cannot; 8 weights; 9 a replica failed."
)


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order a user meets them."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import one command."""
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        found = getattr(importlib.import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
            single.command(cmd_name)(found)
            found = single
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One line each, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


root = typer.Typer(
    cls=LazyGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog=_EPILOG,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"outrider {__version__}")
        raise typer.Exit


@root.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """LLM endpoints that their owners can see into, change and keep fast.

    Start with: outrider endpoint create --model HuggingFaceTB/SmolLM2-135M-Instruct
    """


def main() -> None:
    """Entry point: every deliberate error becomes three lines and its exit code."""
    arguments = sys.argv[1:]
    try:
        root(args=arguments, prog_name="outrider")
    except OutriderError as error:
        _show(error, as_json="--json" in arguments)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("aborted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; that is no error
        sys.exit(0)
    except Exception as error:
        path = _crash_file()
        path.write_text(traceback.format_exc())
        print(f"error: {type(error).__name__}: {error}\n  next: report it with {path}", file=sys.stderr)
        sys.exit(1)


def _show(error: OutriderError, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(error.problem(), indent=2))
        return
    print(f"error: {error.what}", file=sys.stderr)
    if error.why:
        print(f"  why:  {error.why}", file=sys.stderr)
    if error.remedy:
        print(f"  next: {error.remedy}", file=sys.stderr)
    for line in error.details.get("log", [])[-10:]:
        print(f"  log:  {line}", file=sys.stderr)


def _crash_file() -> Path:
    import tempfile

    descriptor, name = tempfile.mkstemp(prefix="outrider-crash-", suffix=".txt")
    os.close(descriptor)
    return Path(name)


if __name__ == "__main__":
    main()
