"""``outrider``: the command line. Groups are imported when they are used, so that help is instant."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from outrider._version import __version__
from outrider.cli.error_reference import epilog
from outrider.cli.failures import crashed, show
from outrider.errors import OutriderError, UsageError

_COMMANDS = {
    "up": ("outrider.cli.up", "up", "Start controller and gateway where they do not run."),
    "down": ("outrider.cli.up", "down", "Drain and stop every replica, the gateway and the controller."),
    "status": ("outrider.cli.up", "status", "Show what is up."),
    "endpoint": ("outrider.cli.endpoint", "app", "Make, see, change and remove endpoints."),
    "deploy": ("outrider.cli.deploy", "deploy", "Deploy a serve.py as the next revision of its endpoint."),
    "bench": ("outrider.cli.bench", "bench", "Measure an endpoint, or any OpenAI server, under load."),
    "recipe": ("outrider.cli.recipe", "app", "See, check and import the recipes of endpoints."),
    "model": ("outrider.cli.model", "app", "See, fetch, check and remove weights."),
    "drafter": ("outrider.cli.drafter", "app", "Make, measure, convert and use draft models."),
    "key": ("outrider.cli.key", "app", "Make, list and revoke API keys."),
    "doctor": ("outrider.cli.doctor", "doctor", "Say what this machine can run, and why not more."),
    "sim": ("outrider.cli.sim", "app", "Replay traffic through routing policies, without a machine."),
    "completion": ("outrider.cli.completion", "completion", "Print the script that completes words in your shell."),
    "version": ("outrider.cli.version", "version", "Print the version."),
}
_INTERRUPTED = 130


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order a user meets them."""
        return list(_COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; an unknown word gets the nearest one."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(args[0], _COMMANDS, 1)
            hint = f"Did you mean: outrider {near[0]}" if near else "See: outrider --help"
            raise UsageError(f"There is no command {args[0]!r}", remedy=hint)
        return super().resolve_command(ctx, args)

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

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The commands that a word may become, without importing any; and options."""
        from typer._click.shell_completion import CompletionItem

        if ctx._protected_args:
            return []  # there is a word before it already, which is no command
        begun = [(name, text) for name, (_, _, text) in _COMMANDS.items() if name.startswith(incomplete)]
        options = super(TyperGroup, self).shell_complete(ctx, incomplete)
        return [*(CompletionItem(name, help=text) for name, text in begun), *options]

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
    epilog=epilog(),
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
    """Entry point of ``outrider``."""
    if question := os.environ.get("_OUTRIDER_COMPLETE"):
        from outrider.cli.completion import answer

        sys.exit(answer(typer.main.get_command(root), question))
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; that is no error
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code. The one place where errors become text."""
    as_json = "--json" in arguments
    try:
        result = root(args=list(arguments), prog_name="outrider", standalone_mode=False)
    except OutriderError as error:
        failure = error
    except KeyboardInterrupt:
        return _INTERRUPTED
    except TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            print(error.format_message())
            return error.exit_code
        failure = _usage(error)
    except typer.Abort:
        return _INTERRUPTED
    except SystemExit:
        return 0  # what typer makes of a reader that left (`| head`); that is no error
    except Exception as error:
        failure = crashed(error, now=datetime.now(UTC))
    else:
        return result if isinstance(result, int) else 0
    show(failure, as_json=as_json)
    return failure.exit_code


def _usage(error: TyperException) -> UsageError:
    context = getattr(error, "ctx", None)
    words = context.command_path if context is not None else "outrider"
    return UsageError(error.format_message().rstrip("."), remedy=f"See: {words} --help")


if __name__ == "__main__":
    main()
