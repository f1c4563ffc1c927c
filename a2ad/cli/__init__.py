"""The command line: `a2ad …`. A command's module is imported when the command runs, or help lists it; what it needs
besides click, when it runs.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module

import click

#: command → where it is; the order is the help's
COMMANDS = {
    "serve": "a2ad.cli.serve:serve",
    "status": "a2ad.cli.status:status",
    "inbound": "a2ad.cli.inbound:inbound",
    "outbound": "a2ad.cli.outbound:outbound",
    "tasks": "a2ad.cli.tasks:tasks",
    "sessions": "a2ad.cli.sessions:sessions",
    "peers": "a2ad.cli.sessions:peers",
    "call": "a2ad.cli.call:call",
    "send": "a2ad.cli.send:send",
    "plugins": "a2ad.cli.plugins:plugins",
    "config": "a2ad.cli.config:config",
    "doctor": "a2ad.cli.doctor:doctor",
    "mcp": "a2ad.cli.mcp:mcp",
    "completion": "a2ad.cli.completion:completion",
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
        from a2ad.cli.loading import register_plugin_commands

        register_plugin_commands(self)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="a2ad")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Make the agents on this machine good citizens of the A2A network.

    `serve` is the daemon; most other commands talk to it: where --url or A2AD_URL says, else where the configuration
    says that it listens. With --json they print what its control API answers.

    \b
    a2ad serve --demo
    a2ad inbound test demo "hello"
    a2ad status

    Exit status: 0 done, 1 failed, 2 used wrongly, 3 a task waits for an answer, 130 ended by Ctrl-C.
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    if ctx.invoked_subcommand != "serve" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda number, _frame: sys.exit(128 + number))
