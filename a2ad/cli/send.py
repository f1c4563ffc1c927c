"""`a2ad send`: a message to any A2A agent, without a daemon."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import click

from a2ad.cli.inputs import file_parts, given_token, json_option, text_argument, token_options
from a2ad.cli.terminal import Conversation


@click.command()
@click.argument("card_url")
@click.argument("text")
@click.option("--skill", metavar="ID", help="The skill that is meant, as the agent's card names it.")
@click.option("--context", "context_id", metavar="ID", help="Go on with this conversation; --json tells its id.")
@click.option("--task", "task_id", metavar="ID", help="Answer this task, which waits.")
@click.option(
    "--file",
    "files",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    metavar="PATH",
    help="Attach a file; repeatable.",
)
@token_options
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, max=86_400, min_open=True),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long the agent may make no progress.",
)
@json_option
def send(
    card_url: str,
    text: str,
    skill: str | None,
    context_id: str | None,
    task_id: str | None,
    files: tuple[Path, ...],
    token_env: str | None,
    token_file: Path | None,
    timeout: float,
    *,
    as_json: bool,
) -> None:
    """Send a text to any A2A agent, without a daemon.

    The agent's card is at CARD_URL, or below it; a TEXT of `-` is standard input.

    What the agent answers is printed as it comes, its statuses go to stderr. The exit status is 0 where its task
    completed, 3 where it needs an answer or an authorisation (--task continues it), else 1. Ctrl-C cancels the task.

    \b
    a2ad send http://127.0.0.1:3080/a2a/demo "hello"
    a2ad send https://agents.example.org --skill summarise --token-env TOKEN - < report.txt
    a2ad send https://agents.example.org --file report.pdf --file chart.png "what is new in these?"
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    from a2ad.cli.asking import answering
    from a2ad.cli.sender import Sender, silence_logs
    from a2ad.outbound.contract import new_message

    _check_url(card_url)
    token = given_token(token_env, token_file)
    silence_logs()
    message = new_message(text_argument(text), skill=skill, contextId=context_id, taskId=task_id)
    message["parts"] += file_parts(files)
    conversation = Conversation(as_json=as_json, answering=lambda task: answering(task, card_url))
    sender = Sender(card_url, token, timeout, conversation)
    status = sender.send(message)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # nobody reads it, or there is none
            stream.flush()
    os._exit(status)  # a thread that still looks up a name must not keep the process


def _check_url(url: str) -> None:
    from a2ad.errors import RemoteError
    from a2ad.outbound.net import origin_of

    try:
        origin_of(url)
    except RemoteError as error:
        raise click.BadParameter(str(error), param_hint="CARD_URL") from None
