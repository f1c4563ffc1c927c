"""`a2ad outbound`: the daemon's connections to remote agents."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from a2ad.cli.client import Refused, act, find_connection, rows
from a2ad.cli.inputs import daemon_options, token_of_variable
from a2ad.cli.table import aligned, table
from a2ad.cli.terminal import Failure, echo_json, note, safe

Row = dict[str, Any]


@click.group()
def outbound() -> None:
    """Connect to remote agents: their skills become tools here.

    CONNECTION is a connection's id, or its name where only one has it.

    \b
    a2ad outbound add reports https://agents.example.org --token-env REPORTS_TOKEN
    a2ad outbound list
    """  # noqa: D301 - click's own mark for lines that are to stay as they are


connection_argument = click.argument("connection")


@outbound.command("list")
@daemon_options
def list_(url: str, *, as_json: bool) -> None:
    """List the connections.

    \b
    a2ad outbound list
    a2ad outbound list --json
    """  # noqa: D301
    found = rows(url, "outbounds")
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
    for line in table(("id", "name", "state", "tools", "card", "error"), cells):
        click.echo(line)


@outbound.command()
@connection_argument
@daemon_options
def show(connection: str, url: str, *, as_json: bool) -> None:
    """Show a connection, its settings and the agent's skills.

    \b
    a2ad outbound show reports
    """  # noqa: D301
    row = find_connection(url, connection)
    if as_json:
        echo_json(row)
        return
    card = row.get("card") or {}
    details = {name: row.get(key) for name, key in _SETTINGS.items()}
    details["disabled skills"] = ", ".join(row.get("disabledSkills") or ())
    details["token origins"] = ", ".join(row.get("tokenOrigins") or ())
    details["token"] = "set" if row.get("tokenSet") else "none"
    for line in aligned([*_present(details), *_present({name: card.get(key) for name, key in _AGENT.items()})]):
        click.echo(line)
    if card.get("skills"):
        click.echo()
        for line in table(_SKILL, [_skill(row, skill) for skill in card["skills"]]):
            click.echo(line)


@outbound.command()
@click.argument("name")
@click.argument("card_url")
@click.option("--token-env", metavar="VAR", help="The variable of the daemon that holds the agent's bearer token.")
@click.option("--preset", metavar="ID", help="The preset that the connection is for.")
@click.option("--timeout-ms", type=int, metavar="N", help="How long the agent may make no progress; else 60000.")
@click.option("--disabled", is_flag=True, help="Only keep it: connect with `enable`.")
@click.option("--disable-skill", "disabled_skills", multiple=True, metavar="ID", help="No tool; repeatable.")
@click.option("--token-origin", "token_origins", multiple=True, metavar="URL", help="May get the token; repeatable.")
@daemon_options
def add(
    name: str,
    card_url: str,
    token_env: str | None,
    preset: str | None,
    timeout_ms: int | None,
    disabled_skills: tuple[str, ...],
    token_origins: tuple[str, ...],
    url: str,
    *,
    disabled: bool,
    as_json: bool,
) -> None:
    """Connect to the agent whose card is at CARD_URL, or below it. Prints the connection's id.

    \b
    a2ad outbound add reports https://agents.example.org --token-env REPORTS_TOKEN
    a2ad outbound add demo http://127.0.0.1:3080/a2a/demo --disable-skill admin
    """  # noqa: D301
    fields = {
        "bearerTokenEnv": token_env,
        "preset": preset,
        "timeoutMs": timeout_ms,
        "disabledSkills": list(disabled_skills) or None,
        "tokenOrigins": list(token_origins) or None,
    }
    answer = _act(
        url, "outbound.create", as_json, name=name, agentCardUrl=card_url, enabled=not disabled, **_given(fields)
    )
    if not as_json:
        note(answer["message"])
        click.echo(answer["id"])


@outbound.command("set")
@connection_argument
@click.option("--name", help="Another name; the tools' names follow it.")
@click.option("--timeout-ms", type=int, metavar="N", help="How long the agent may make no progress.")
@click.option("--preset", metavar="ID", help="The preset that the connection is for; empty for none.")
@click.option("--token-env", metavar="VAR", help="The variable of the daemon that holds the token; empty for none.")
@click.option("--disable-skill", multiple=True, metavar="ID", help="No tool any more; repeatable.")
@click.option("--enable-skill", multiple=True, metavar="ID", help="A tool again; repeatable.")
@click.option("--skill-title", type=(str, str), multiple=True, metavar="ID TITLE", help="What the tool is called.")
@click.option("--skill-description", type=(str, str), multiple=True, metavar="ID TEXT", help="What models read of it.")
@click.option("--skill-reset", multiple=True, metavar="ID", help="As the agent's card has it; repeatable.")
@click.option("--token-origin", multiple=True, metavar="URL", help="May get the token, too; repeatable.")
@click.option("--no-token-origin", multiple=True, metavar="URL", help="May not get it any more; repeatable.")
@daemon_options
def set_(connection: str, url: str, *, as_json: bool, **options: Any) -> None:
    """Change a connection's settings; what is not named stays.

    \b
    a2ad outbound set reports --timeout-ms 300000 --disable-skill admin
    a2ad outbound set reports --skill-title chat "Ask the reporter" --skill-description chat "Knows every report"
    """  # noqa: D301
    if not any(value is not None and value != () for value in options.values()):
        raise click.UsageError("there is nothing to set")
    row = find_connection(url, connection)
    fields = {
        "name": options["name"],
        "timeoutMs": options["timeout_ms"],
        "preset": options["preset"],
        "bearerTokenEnv": options["token_env"],
        "disabledSkills": _merged(row.get("disabledSkills"), options["disable_skill"], options["enable_skill"]),
        "skillOverrides": _overrides(row, options),
        "tokenOrigins": _merged(
            row.get("tokenOrigins"), options["token_origin"], tuple(map(_origin, options["no_token_origin"]))
        ),
    }
    _warn_of_unknown_skills(row, options)
    _done(_act(url, "outbound.update", as_json, id=row["id"], **_given(fields)), as_json)


@outbound.command()
@connection_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@daemon_options
def remove(connection: str, url: str, *, yes: bool, as_json: bool) -> None:
    """Remove a connection; its calls end. On a terminal it asks first.

    \b
    a2ad outbound remove reports --yes
    """  # noqa: D301
    row = find_connection(url, connection)
    if not yes and sys.stdin.isatty():
        question = f"Remove the connection {row['name']!r} to {row['agentCardUrl']!r}?"
        click.confirm(question, abort=True, err=True)
    _done(_act(url, "outbound.remove", as_json, id=row["id"]), as_json)


@outbound.command()
@connection_argument
@daemon_options
def enable(connection: str, url: str, *, as_json: bool) -> None:
    """Connect, now and at every start.

    \b
    a2ad outbound enable reports
    """  # noqa: D301
    _act_on(url, "outbound.enable", connection, as_json)


@outbound.command()
@connection_argument
@daemon_options
def disable(connection: str, url: str, *, as_json: bool) -> None:
    """Keep a connection without using it: its tools go away.

    \b
    a2ad outbound disable reports
    """  # noqa: D301
    _act_on(url, "outbound.disable", connection, as_json)


@outbound.command()
@connection_argument
@daemon_options
def refresh(connection: str, url: str, *, as_json: bool) -> None:
    """Fetch the agent's card again, now.

    \b
    a2ad outbound refresh reports
    """  # noqa: D301
    _act_on(url, "outbound.refresh", connection, as_json)


@outbound.command()
@click.argument("card_url")
@click.option("--token-env", metavar="VAR", help="The variable, of this command, that holds the agent's bearer token.")
@daemon_options
def discover(card_url: str, token_env: str | None, url: str, *, as_json: bool) -> None:
    """Show an agent's card without connecting to it.

    It is at CARD_URL, or below it. Nothing is kept.

    \b
    a2ad outbound discover https://agents.example.org
    """  # noqa: D301
    token = token_of_variable(token_env, "--token-env") if token_env else None
    answer = _act(url, "outbound.discover", as_json, agentCardUrl=card_url, **_given({"token": token}))
    if as_json:
        return
    preview = answer["preview"]
    for line in aligned(_present({name: preview.get(key) for name, key in _AGENT.items()})):
        click.echo(line)
    if preview.get("skills"):
        click.echo()
        for line in table(("id", "name", "description"), preview["skills"]):
            click.echo(line)


@outbound.command()
@connection_argument
@click.option("--env", "variable", metavar="VAR", help="Take it from this variable, of this command, once.")
@click.option("--file", "path", type=click.Path(path_type=Path), metavar="PATH", help="Take it from a file.")
@click.option("--clear", is_flag=True, help="Forget it; the variable of --token-env counts again.")
@daemon_options
def token(connection: str, variable: str | None, path: Path | None, url: str, *, clear: bool, as_json: bool) -> None:
    """Set the bearer token for a remote agent. It is asked for on a terminal, else read from standard input.

    The daemon keeps it in a file of its own; it goes before the variable of --token-env.

    \b
    a2ad outbound token reports < token.txt
    a2ad outbound token reports --clear
    """  # noqa: D301
    if (variable is not None) + (path is not None) + clear > 1:
        raise click.UsageError("--env, --file and --clear exclude each other")
    given = None if clear else _token(variable, path)
    row = find_connection(url, connection)
    _done(_act(url, "outbound.setAuth", as_json, id=row["id"], token=given), as_json)


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


def _present(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    words = {True: "yes", False: "no"}
    return [(name, words.get(value, str(value))) for name, value in details.items() if value not in {None, ""}]


def _given(fields: Mapping[str, Any]) -> Row:
    return {name: value for name, value in fields.items() if value is not None}


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


def _token(variable: str | None, path: Path | None) -> str:
    """The token, without the blanks around it; never from the command line, where others could read it."""
    if variable is not None:
        return token_of_variable(variable, "--env")
    if path is not None:
        try:
            found = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise click.BadParameter(f"{path} cannot be read: {reason}", param_hint="--file") from None
    elif sys.stdin.isatty():
        found = click.prompt("Token", hide_input=True, err=True)
    else:
        found = sys.stdin.read()
    if not found.strip():
        raise click.UsageError("the token is empty; --clear forgets the one that is set")
    return str(found).strip()


def _act(url: str, action: str, as_json: bool, /, **fields: Any) -> Row:
    """The daemon's answer, printed where JSON is wanted, also where it says no."""
    try:
        answer = act(url, action, **fields)
    except Refused as refused:
        if as_json:
            echo_json(refused.answer)
        raise
    if as_json:
        echo_json(answer)
    return answer


def _done(answer: Row, as_json: bool) -> None:
    if not as_json:
        click.echo(safe(answer["message"]))


def _act_on(url: str, action: str, connection: str, as_json: bool) -> None:
    row = find_connection(url, connection)
    _done(_act(url, action, as_json, id=row["id"]), as_json)
