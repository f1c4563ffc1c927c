"""What a task asks, and the command that answers it: for people, aside."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import click
from click.core import ParameterSource

from a2ad.cli.table import cell

#: options that the answer needs as the question did
_CARRIED = ("skill", "token_env", "token_file", "timeout", "url", "config_file")


def question_in(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The data part of a question among the parts of a status message: `{question, options?, …}`, or nothing."""
    found = [part.get("data") for part in parts]
    return next((data for data in found if _is_question(data)), {})


def apart(text: str) -> tuple[str, dict[str, Any]]:
    """A result's text without the question's data, which is its last line where there is one; and that data."""
    before, _, last = text.rpartition("\n")
    try:
        data = json.loads(last) if last.startswith("{") else None
    except ValueError:
        data = None
    return (before, data) if _is_question(data) else (text, {})


def option_lines(question: Mapping[str, Any]) -> list[str]:
    """The options, each by what names it and what it is called."""
    options = question.get("options")
    rows = [each for each in options if isinstance(each, dict)] if isinstance(options, list) else []
    names = [(cell(each.get("id") or each.get("name")), cell(each.get("name"))) for each in rows]
    widest = max((len(name) for name, _ in names), default=0)
    return [f"  {name:{widest}}  {title}" if title not in {name, "-"} else f"  {name}" for name, title in names]


def answering(task_id: str, *target: str) -> str:
    """The command that answers the task, as a shell takes it: the one that runs now, with the words of `target` and
    the options that it still needs.
    """
    context = click.get_current_context()
    words = ["a2ad", *context.command_path.split()[-_depth(context) :], *target, "--task", task_id]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in _CARRIED and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            words += [parameter.opts[0], str(context.params[name])]
    return f'{shlex.join(words)} "…"'


def _depth(context: click.Context) -> int:
    """How many groups the command is in."""
    return 0 if context.parent is None else 1 + _depth(context.parent)


def _is_question(data: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(data, dict) and isinstance(data.get("question"), str)
