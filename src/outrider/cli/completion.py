"""``completion``: the script that makes a shell ask Outrider what could come next, and the answer to its question."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

VARIABLE = "_OUTRIDER_COMPLETE"
"""Set by the script: a run with it answers the shell and does nothing else."""


class Shell(StrEnum):
    """The shells that can be completed."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell you use.")]) -> None:
    """Print the script that completes words in your shell: commands, options, names of endpoints, recipes and keys.

    For example: outrider completion bash > ~/.local/share/bash-completion/completions/outrider
    """
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="outrider", complete_var=VARIABLE, shell=shell.value))


def answer(command: Any, instruction: str) -> int:
    """Answer a shell, whose question typer's classes read from the environment; the exit code.

    Args:
        command: the root group.
        instruction: the value of the variable, ``complete_bash`` for example.
    """
    try:
        from typer.completion import shell_complete

        _register()
        return shell_complete(command, {}, "outrider", VARIABLE, instruction)
    except SystemExit as left:  # how fish is told whether there is anything
        return left.code if isinstance(left.code, int) else 1
    except Exception:
        return 1  # a message would land in the middle of the line that is being typed


def _register() -> None:
    from typer._click.shell_completion import CompletionItem, add_completion_class
    from typer._completion_classes import BashComplete, FishComplete, ZshComplete

    def names(items: Sequence[CompletionItem]) -> list[CompletionItem]:
        # For a file typer offers the word as it is begun, and that would end it; with nothing, shells offer files.
        return [item for item in items if item.type == "plain"]

    class Bash(BashComplete):
        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
            return names(super().get_completions(args, incomplete))

    class Zsh(ZshComplete):
        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
            return names(super().get_completions(args, incomplete))

    class Fish(FishComplete):
        def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
            return names(super().get_completions(args, incomplete))

    for shell in (Bash, Zsh, Fish):
        add_completion_class(shell, shell.name)
