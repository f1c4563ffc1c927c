"""The command line: `a2ad …`. A command's module is imported when the command runs."""

from __future__ import annotations

from importlib import import_module

import click

#: command → where it is; the order is the help's
COMMANDS = {
    "serve": "a2ad.cli.serve:serve",
    "config": "a2ad.cli.config:config",
    "outbound": "a2ad.cli.outbound:outbound",
    "call": "a2ad.cli.call:call",
    "send": "a2ad.cli.send:send",
    "plugins": "a2ad.cli.plugins:plugins",
    "doctor": "a2ad.cli.doctor:doctor",
    "mcp": "a2ad.cli.mcp:mcp",
}


class LazyGroup(click.Group):
    """Finds the built-in commands by name, and the plugins' when one is asked for that is not built in."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        self._load_plugin_commands()
        return [*COMMANDS, *sorted(set(super().list_commands(ctx)) - set(COMMANDS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, name = COMMANDS[cmd_name].partition(":")
            command: click.Command = getattr(import_module(module), name)
            return command
        self._load_plugin_commands()
        return super().get_command(ctx, cmd_name)

    def _load_plugin_commands(self) -> None:
        from a2ad.cli.plugins import register_plugin_commands

        register_plugin_commands(self)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="a2ad")
def main() -> None:
    """Make the agents on this machine good citizens of the A2A network."""
