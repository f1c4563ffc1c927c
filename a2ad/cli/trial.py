"""`a2ad inbound test`: a message to an inbound server as the operator's, without its token."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from a2ad.cli.acts import given, refusals
from a2ad.cli.completing import complete_inbound, complete_inbound_skill, complete_waiting_task
from a2ad.cli.inputs import daemon_options, text_argument
from a2ad.cli.terminal import Conversation, Failure, echo_json, echo_json_line, exit_on_signals, note, tell_output_error

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon
    from a2ad.cli.frames import Telling


@click.command()
@click.argument("inbound", shell_complete=complete_inbound)
@click.argument("text")
@click.option("--skill", metavar="ID", shell_complete=complete_inbound_skill, help="The skill that is meant.")
@click.option("--context", "context_id", metavar="ID", help="Go on with this conversation.")
@click.option("--task", "task_id", metavar="ID", shell_complete=complete_waiting_task, help="Answer this task.")
@click.option("--no-wait", is_flag=True, help="Only begin the task, and print its id.")
@click.option("--wire", is_flag=True, help="Print the JSON-RPC request and each response, a line each.")
@daemon_options
def test(
    inbound: str, text: str, daemon: Daemon, *, no_wait: bool, wire: bool, as_json: bool, **options: str | None
) -> None:
    """Send a text to an inbound server and print its answer.

    The answer is printed as it comes, its statuses go to stderr; a TEXT of `-` is standard input; --json prints the
    control API's answer at the end. The exit status is 0 where the task completed, 3 where it needs an answer (--task
    continues it), else 1. Ctrl-C cancels the task.

    \b
    a2ad inbound test reports "hello"
    a2ad inbound test reports --skill summarise - < report.txt
    a2ad inbound test reports --wire "hello"
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    from a2ad.cli.asking import answering

    if wire and (as_json or no_wait):
        raise click.UsageError("--wire goes with neither --json nor --no-wait")
    said = text_argument(text)
    exit_on_signals()
    names = {"skill": "skill", "context_id": "contextId", "task_id": "taskId"}
    fields = {"id": daemon.find("inbounds", inbound)["id"], "text": said}
    fields |= given({names[name]: value for name, value in options.items()})
    with refusals(as_json):
        if no_wait:
            _begin(daemon, fields, as_json=as_json)
            return
        conversation = Conversation(
            as_json=as_json or wire,
            task="the task",
            agent="the agent",
            answering=lambda task: answering(task, inbound),
        )
        try:
            sys.exit(_tried(daemon, fields, conversation, wire=wire, as_json=as_json))
        except OSError as error:
            tell_output_error(error)
            sys.exit(1)
        finally:
            conversation.leave()


def _begin(daemon: Daemon, fields: dict[str, Any], *, as_json: bool) -> None:
    answer = daemon.act("inbound.sendTest", **fields, returnImmediately=True)
    if as_json:
        echo_json(answer)
    else:
        click.echo((answer.get("task") or {}).get("id", ""))


def _tried(daemon: Daemon, fields: dict[str, Any], conversation: Conversation, *, wire: bool, as_json: bool) -> int:
    """The exit status. Whatever ends this before the task has ended cancels the task."""
    from a2ad.cli.frames import Telling

    telling = Telling(conversation)
    leaving = _Leaving(telling, conversation)
    result: dict[str, Any] = {}
    try:
        with closing(daemon.act_on("inbound.sendTest", **fields)) as events:
            for name, _, data in events:
                if name == "result":
                    result = data
                elif wire:
                    echo_json_line(data)
                if name == "frame" and "result" in data:
                    telling.take(data["result"])
                leaving.check()
    except (SystemExit, OSError):
        _cancel(daemon, telling)
        raise
    # a daemon that streams nothing has it all here
    if result.get("task"):
        telling.take({"task": result["task"]})
    elif result.get("reply") and not telling.replied:
        telling.take({"message": result["reply"]})
    if as_json:
        echo_json(result)
    if result.get("ok") is not True:
        return conversation.end({**telling.outcome(), **result})
    return conversation.end(telling.outcome())


class _Leaving:
    """The first Ctrl-C or SIGTERM leaves once the task is known, which is to be canceled; a further one at once."""

    def __init__(self, telling: Telling, conversation: Conversation) -> None:
        self._telling = telling
        self._conversation = conversation
        self._status: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._heed)

    def check(self) -> None:
        if self._status is not None and self._telling.task_id is not None:
            raise SystemExit(self._status)

    def _heed(self, number: int, _frame: object) -> None:
        if self._status is not None:
            os._exit(128 + number)
        self._status = 128 + number
        self._conversation.leave()
        note("canceling the task; the same again leaves at once")
        self.check()


def _cancel(daemon: Daemon, telling: Telling) -> None:
    if telling.task_id is None or (telling.state is not None and telling.state.terminal):
        return
    try:
        daemon.act("task.cancel", id=telling.task_id)
    except Failure as failure:
        note(failure.message)
