"""`a2ad outbound`: the daemon's connections to remote agents."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2ad.cli.acts import Row, act, act_on_row, done, given, present
from a2ad.cli.completing import (
    Completer,
    complete_connection,
    complete_disabled_skill,
    complete_enabled_skill,
    complete_presets,
    complete_skill,
)
from a2ad.cli.groups import ListGroup
from a2ad.cli.inputs import daemon_options, given_token, needed_token, token_options
from a2ad.cli.table import aligned, table
from a2ad.cli.terminal import Failure, echo_json, note, show_lines

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon


@click.group(cls=ListGroup, aliases={"create": "add", "set": "update"})
def outbound() -> None:
    """Connect to remote agents: their skills become tools here.

    CONNECTION is a connection's id, or its name where only one has it.

    \b
    a2ad outbound add reports https://agents.example.org --auth-token-env REPORTS_TOKEN
    a2ad outbound list
    """  # noqa: D301 - click's own mark for lines that are to stay as they are


connection_argument = click.argument("connection", shell_complete=complete_connection)
preset_option = click.option(
    "--preset",
    metavar="ID",
    shell_complete=complete_presets,
    help="The preset that the connection is for, if any.",
)


def _skill_option(name: str, complete: Completer, told: str) -> Callable[[Any], Any]:
    return click.option(name, multiple=True, metavar="ID", shell_complete=complete, help=told)


@outbound.command("list")
@daemon_options
def list_(daemon: Daemon, *, as_json: bool) -> None:
    """List the connections.

    \b
    a2ad outbound list
    a2ad outbound list --json
    """  # noqa: D301
    found = daemon.rows("outbounds")
    if as_json:
        echo_json(found)
        return
    cells = [
        {
            **row,
            "tools": f"{row.get('toolCount')}/{row.get('skillCount')}",
            "card": row.get("agentCardUrl"),
            "error": row.get("lastError"),
        }
        for row in found
    ]
    show_lines(table(("id", "name", "state", "tools", "card", "error"), cells, weakest=("card", "tools", "error")))


@outbound.command()
@connection_argument
@daemon_options
def show(connection: str, daemon: Daemon, *, as_json: bool) -> None:
    """Show a connection, its settings and the agent's skills.

    \b
    a2ad outbound show reports
    """  # noqa: D301
    row = daemon.find("outbounds", connection)
    if as_json:
        echo_json(row)
        return
    card = row.get("card") or {}
    details = {name: row.get(key) for name, key in _SETTINGS.items()}
    details["disabled skills"] = ", ".join(row.get("disabledSkills") or ())
    details["token origins"] = ", ".join(row.get("tokenOrigins") or ())
    details["token"] = "set" if row.get("tokenSet") else "none"
    show_lines(aligned([*present(details), *present({name: card.get(key) for name, key in _AGENT.items()})]))
    if card.get("skills"):
        click.echo()
        show_lines(table(_SKILL, [_skill(row, skill) for skill in card["skills"]]))


@outbound.command()
@click.argument("name")
@click.argument("card_url")
@click.option("--auth-token-env", metavar="VAR", help="The variable of the daemon that holds the agent's token.")
@preset_option
@click.option("--timeout-ms", type=int, metavar="N", help="How long the agent may make no progress; else 60000.")
@click.option("--disabled", is_flag=True, help="Only keep it: connect with `enable`.")
@click.option("--disable-skill", "disabled_skills", multiple=True, metavar="ID", help="No tool; repeatable.")
@click.option("--token-origin", "token_origins", multiple=True, metavar="URL", help="May get the token; repeatable.")
@daemon_options
def add(
    name: str,
    card_url: str,
    auth_token_env: str | None,
    preset: str | None,
    timeout_ms: int | None,
    disabled_skills: tuple[str, ...],
    token_origins: tuple[str, ...],
    daemon: Daemon,
    *,
    disabled: bool,
    as_json: bool,
) -> None:
    """Connect to the agent whose card is at CARD_URL, or below it. Prints the connection's id.

    \b
    a2ad outbound add reports https://agents.example.org --auth-token-env REPORTS_TOKEN
    a2ad outbound add demo http://127.0.0.1:3080/a2a/demo --disable-skill admin
    """  # noqa: D301
    fields = {
        "bearerTokenEnv": auth_token_env,
        "preset": preset,
        "timeoutMs": timeout_ms,
        "disabledSkills": list(disabled_skills) or None,
        "tokenOrigins": list(token_origins) or None,
    }
    answer = act(
        daemon, "outbound.create", as_json, name=name, agentCardUrl=card_url, enabled=not disabled, **given(fields)
    )
    if not as_json:
        note(answer["message"])
        click.echo(answer["id"])


@outbound.command()
@connection_argument
@click.option("--name", help="Another name; the tools' names follow it.")
@click.option("--timeout-ms", type=int, metavar="N", help="How long the agent may make no progress.")
@preset_option
@click.option(
    "--auth-token-env", metavar="VAR", help="The variable of the daemon that holds the token; empty for none."
)
@_skill_option("--disable-skill", complete_enabled_skill, "No tool any more; repeatable.")
@_skill_option("--enable-skill", complete_disabled_skill, "A tool again; repeatable.")
@click.option("--skill-title", type=(str, str), multiple=True, metavar="ID TITLE", help="What the tool is called.")
@click.option("--skill-description", type=(str, str), multiple=True, metavar="ID TEXT", help="What models read of it.")
@_skill_option("--skill-reset", complete_skill, "As the agent's card has it; repeatable.")
@click.option("--token-origin", multiple=True, metavar="URL", help="May get the token, too; repeatable.")
@click.option("--no-token-origin", multiple=True, metavar="URL", help="May not get it any more; repeatable.")
@daemon_options
def update(connection: str, daemon: Daemon, *, as_json: bool, **options: Any) -> None:
    """Change a connection's settings; what is not named stays.

    \b
    a2ad outbound update reports --timeout-ms 300000 --disable-skill admin
    a2ad outbound update reports --skill-title chat "Ask the reporter" --skill-description chat "Knows every report"
    """  # noqa: D301
    if not any(value is not None and value != () for value in options.values()):
        raise click.UsageError("there is nothing to change")
    row = daemon.find("outbounds", connection)
    fields = {
        "name": options["name"],
        "timeoutMs": options["timeout_ms"],
        "preset": options["preset"],
        "bearerTokenEnv": options["auth_token_env"],
        "disabledSkills": _merged(row.get("disabledSkills"), options["disable_skill"], options["enable_skill"]),
        "skillOverrides": _overrides(row, options),
        "tokenOrigins": _merged(
            row.get("tokenOrigins"), options["token_origin"], tuple(map(_origin, options["no_token_origin"]))
        ),
    }
    _warn_of_unknown_skills(row, options)
    done(act(daemon, "outbound.update", as_json, id=row["id"], **given(fields)), as_json)


@outbound.command()
@connection_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@daemon_options
def remove(connection: str, daemon: Daemon, *, yes: bool, as_json: bool) -> None:
    """Remove a connection; its calls end. On a terminal it asks first.

    \b
    a2ad outbound remove reports --yes
    """  # noqa: D301
    row = daemon.find("outbounds", connection)
    if not yes and sys.stdin.isatty():
        question = f"Remove the connection {row['name']!r} to {row['agentCardUrl']!r}?"
        click.confirm(question, abort=True, err=True)
    done(act(daemon, "outbound.remove", as_json, id=row["id"]), as_json)


@outbound.command()
@connection_argument
@daemon_options
def enable(connection: str, daemon: Daemon, *, as_json: bool) -> None:
    """Connect, now and at every start.

    \b
    a2ad outbound enable reports
    """  # noqa: D301
    act_on_row(daemon, "outbound.enable", "outbounds", connection, as_json)


@outbound.command()
@connection_argument
@daemon_options
def disable(connection: str, daemon: Daemon, *, as_json: bool) -> None:
    """Keep a connection without using it: its tools go away.

    \b
    a2ad outbound disable reports
    """  # noqa: D301
    act_on_row(daemon, "outbound.disable", "outbounds", connection, as_json)


@outbound.command()
@connection_argument
@daemon_options
def refresh(connection: str, daemon: Daemon, *, as_json: bool) -> None:
    """Fetch the agent's card again, now.

    \b
    a2ad outbound refresh reports
    """  # noqa: D301
    act_on_row(daemon, "outbound.refresh", "outbounds", connection, as_json)


@outbound.command()
@click.argument("card_url")
@token_options
@daemon_options
def discover(card_url: str, token_env: str | None, token_file: Path | None, daemon: Daemon, *, as_json: bool) -> None:
    """Show an agent's card without connecting to it.

    It is at CARD_URL, or below it. Nothing is kept.

    \b
    a2ad outbound discover https://agents.example.org
    """  # noqa: D301
    fields = given({"token": given_token(token_env, token_file)})
    answer = act(daemon, "outbound.discover", as_json, agentCardUrl=card_url, **fields)
    if as_json:
        return
    preview = answer["preview"]
    show_lines(aligned(present({name: preview.get(key) for name, key in _AGENT.items()})))
    if preview.get("skills"):
        click.echo()
        show_lines(table(("id", "name", "description"), preview["skills"]))


@outbound.group()
def token() -> None:
    """Set or clear the bearer token for a remote agent.

    The daemon keeps it in a file of its own; it goes before the variable of --auth-token-env.

    \b
    a2ad outbound token set reports
    a2ad outbound token clear reports
    """  # noqa: D301


@token.command("set")
@connection_argument
@token_options
@daemon_options
def token_set(
    connection: str, token_env: str | None, token_file: Path | None, daemon: Daemon, *, as_json: bool
) -> None:
    """Set it. Without an option it is asked for on a terminal, else read from standard input.

    \b
    a2ad outbound token set reports
    a2ad outbound token set reports --token-file token.txt
    """  # noqa: D301
    secret = needed_token(token_env, token_file)
    act_on_row(daemon, "outbound.setAuth", "outbounds", connection, as_json, token=secret)


@token.command("clear")
@connection_argument
@daemon_options
def token_clear(connection: str, daemon: Daemon, *, as_json: bool) -> None:
    """Forget it; the variable of --auth-token-env counts again.

    \b
    a2ad outbound token clear reports
    """  # noqa: D301
    act_on_row(daemon, "outbound.setAuth", "outbounds", connection, as_json, token=None)


_SETTINGS = {
    "id": "id",
    "name": "name",
    "state": "state",
    "error": "lastError",
    "card": "agentCardUrl",
    "created": "createdAt",
    "timeout ms": "timeoutMs",
    "preset": "preset",
    "token variable": "bearerTokenEnv",
}
_AGENT = {
    "agent": "name",
    "description": "description",
    "version": "version",
    "endpoint": "endpoint",
    "protocol": "protocolVersion",
    "streaming": "streaming",
}
_SKILL = ("id", "tool", "title", "description")


def _skill(row: Row, skill: Row) -> Row:
    """A skill of the agent as models see it here."""
    override = (row.get("skillOverrides") or {}).get(skill["id"], {})
    return {
        "id": skill["id"],
        "tool": "disabled"
        if skill["id"] in (row.get("disabledSkills") or ())
        else (row.get("tools") or {}).get(skill["id"]),
        "title": override.get("name") or skill.get("name"),
        "description": override.get("description", skill.get("description")),
    }


def _merged(known: list[str] | None, more: tuple[str, ...], fewer: tuple[str, ...]) -> list[str] | None:
    """The list with some more and without others; None where nothing is to change. What cannot be taken away, since it
    is not there, is an error.
    """
    if not more and not fewer:
        return None
    for each in fewer:
        if each not in (known or ()):
            raise Failure(f"{each!r} is not there: there are {', '.join(known or ()) or 'none'}")
    return [each for each in dict.fromkeys([*(known or ()), *more]) if each not in fewer]


def _origin(url: str) -> str:
    """As the daemon keeps it."""
    from a2ad.errors import RemoteRefused
    from a2ad.outbound.net import origin_of

    try:
        return origin_of(url)
    except RemoteRefused:
        return url


def _overrides(row: Row, options: Mapping[str, Any]) -> Row | None:
    """The titles and descriptions that take the place of the card's; None where nothing is to change."""
    titles, descriptions, resets = options["skill_title"], options["skill_description"], options["skill_reset"]
    if not titles and not descriptions and not resets:
        return None
    known = row.get("skillOverrides") or {}
    overrides = {skill: dict(override) for skill, override in known.items() if skill not in resets}
    for key, pairs in (("name", titles), ("description", descriptions)):
        for skill, text in pairs:
            overrides.setdefault(skill, {})[key] = text
    return overrides


def _warn_of_unknown_skills(row: Row, options: Mapping[str, Any]) -> None:
    """A skill may come later, but a slip of the pen is likelier."""
    if "card" not in row:
        return
    known = [skill["id"] for skill in row["card"]["skills"]]
    pairs = (*options["skill_title"], *options["skill_description"])
    for skill in dict.fromkeys([*options["disable_skill"], *(skill for skill, _ in pairs)]):
        if skill not in known:
            note(f"the agent has no skill {skill!r} now; it has: {', '.join(known) or 'none'}")
