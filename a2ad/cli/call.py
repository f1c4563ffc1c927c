"""`a2ad call`: a message to a remote agent, through the daemon's connection to it."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from a2ad.cli.completing import complete_connection, complete_enabled_skill
from a2ad.cli.inputs import daemon_options, text_argument
from a2ad.cli.terminal import Conversation, exit_on_signals, tell_output_error

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon


@click.command()
@click.argument("connection", shell_complete=complete_connection)
@click.argument("words", metavar="[SKILL] TEXT", nargs=-1, required=True, shell_complete=complete_enabled_skill)
@click.option("--context", "context_id", metavar="ID", help="The remote's conversation; else always the same one.")
@click.option("--task", "task_id", metavar="ID", help="The remote's task that waits for this answer.")
@daemon_options
def call(
    connection: str,
    words: tuple[str, ...],
    context_id: str | None,
    task_id: str | None,
    daemon: Daemon,
    *,
    as_json: bool,
) -> None:
    """Send a text to a connection's remote agent.

    CONNECTION is the connection's id or name, SKILL one of the agent's; a TEXT of `-` is standard input.

    What the agent answers is printed as it comes, its statuses go to stderr. The exit status is 0 where its task
    completed, 3 where it needs an answer or an authorisation (--task continues it), else 1. Ctrl-C cancels the task.

    \b
    a2ad call reports summarise "the last week"
    a2ad call reports --task 0193… "yes, both"
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    from a2ad.cli.asking import answering

    if len(words) > 2:
        raise click.UsageError("give at most a SKILL and one TEXT: put the text in quotes")
    fields: dict[str, Any] = {"text": text_argument(words[-1])}
    fields |= {"skill": words[0]} if len(words) == 2 else {}
    fields |= {key: value for key, value in (("contextId", context_id), ("taskId", task_id)) if value is not None}
    exit_on_signals()
    fields["id"] = daemon.find("outbounds", connection)["id"]
    conversation = Conversation(as_json=as_json, answering=lambda task: answering(task, connection, *words[:-1]))
    try:
        status = conversation.finish(_called(daemon, fields, conversation))
        conversation.leave()
    except OSError as error:
        tell_output_error(error)
        status = 1
    sys.exit(status)


def _called(daemon: Daemon, fields: dict[str, Any], conversation: Conversation) -> dict[str, Any]:
    """The result, after what came before it was told."""
    from a2ad.cli.client import Refused

    result: dict[str, Any] = {}
    with closing(daemon.act_on("outbound.call", **fields)) as events:
        try:
            for name, _, data in events:
                if name == "result":
                    result = data
                elif "text" in data:
                    conversation.say(data["text"])
                elif "state" in data:
                    conversation.state(data["state"], data.get("message") or "")
        except Refused as refused:  # by the daemon, before there was a call
            result = {**refused.answer, "message": refused.message}
    return result
