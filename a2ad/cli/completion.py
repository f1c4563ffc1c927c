"""`a2ad completion`: what makes a shell complete the command line."""

from __future__ import annotations

import os
from pathlib import PurePath

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print the script that makes a shell complete all of this.

    Commands, options, ids and names are completed; ids and names are those of the running daemon. Without SHELL it
    is that of $SHELL.

    \b
    eval "$(a2ad completion bash)"                                  # in ~/.bashrc
    eval "$(a2ad completion zsh)"                                   # in ~/.zshrc, after compinit
    a2ad completion fish > ~/.config/fish/completions/a2ad.fish
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    from click.shell_completion import get_completion_class

    shell = shell or PurePath(os.environ.get("SHELL", "")).name
    found = get_completion_class(shell) if shell in SHELLS else None
    if found is None:
        raise click.UsageError(f"say which shell: {', '.join(SHELLS)}")
    click.echo(found(ctx.find_root().command, {}, "a2ad", "_A2AD_COMPLETE").source())
