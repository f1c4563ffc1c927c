"""Groups of commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class ListGroup(click.Group):
    """Lists where no command is named: `a2ad tasks --json` is `a2ad tasks list --json`. `aliases` are further names of
    commands, which help does not list.
    """

    def __init__(self, *args: Any, aliases: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._aliases = aliases or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # while a shell completes, what is missing is about to be typed
        bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, ["list", *args] if bare and not ctx.resilient_parsing else args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, self._aliases.get(cmd_name, cmd_name))
