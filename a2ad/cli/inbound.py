"""`a2ad inbound`: the agents that the daemon publishes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2ad.cli.acts import Row, act, act_on_row, done, given, present, refusals
from a2ad.cli.completing import complete_inbound, complete_presets
from a2ad.cli.groups import ListGroup
from a2ad.cli.inputs import daemon_options, given_token, needed_token, token_options
from a2ad.cli.table import aligned, table
from a2ad.cli.terminal import echo_json, note, show_lines
from a2ad.cli.trial import test

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon


@click.group(cls=ListGroup, aliases={"create": "add", "set": "update"})
def inbound() -> None:
    """Publish agents of this machine as A2A servers.

    INBOUND is an inbound server's id, or its name where only one has it. Without a command they are listed.

    \b
    a2ad inbound add reports --description "Reporting agent"
    a2ad inbound token set reports
    a2ad inbound test reports "hello"
    """  # noqa: D301 - click's own mark for lines that are to stay as they are


inbound.add_command(test)
inbound_argument = click.argument("inbound", shell_complete=complete_inbound)
preset_option = click.option(
    "--preset", metavar="ID", shell_complete=complete_presets, help="Which agent answers, and its skills."
)
path_option = click.option("--path", metavar="PATH", help="Where clients find it, such as /a2a/reports.")
variable_option = click.option(
    "--auth-token-env", metavar="VAR", help="The variable of the daemon that holds its token; empty for none."
)


@inbound.command("list")
@daemon_options
def list_(daemon: Daemon, *, as_json: bool) -> None:
    """List the inbound servers.

    --json has the rows of the control API.

    \b
    a2ad inbound list
    a2ad inbound list --json
    """  # noqa: D301
    found = daemon.rows("inbounds")
    if as_json:
        echo_json(found)
        return
    cells = [{**row, "state": _state(row), "token": _token(row), "url": row.get("cardUrl")} for row in found]
    show_lines(table(_COLUMNS, cells, weakest=("url", "token", "preset", "error")))


@inbound.command()
@inbound_argument
@daemon_options
def show(inbound: str, daemon: Daemon, *, as_json: bool) -> None:
    """Show an inbound server, its settings and skills.

    --json has its row of the control API.

    \b
    a2ad inbound show reports
    """  # noqa: D301
    row = daemon.find("inbounds", inbound)
    if as_json:
        echo_json(row)
        return
    details = {name: row.get(key) for name, key in _SETTINGS.items()}
    details |= {"state": _state(row), "token": _token(row)}
    show_lines(aligned(present(details)))
    if row.get("skills"):
        click.echo()
        show_lines(table(("id", "name", "description"), row["skills"]))


@inbound.command()
@click.argument("name")
@click.option("--description", metavar="TEXT", help="What it is for, as its card says it; else its name.")
@click.option("--version", "version_", default="1.0.0", show_default=True, metavar="TEXT", help="The card's.")
@preset_option
@path_option
@variable_option
@token_options
@click.option("--disabled", is_flag=True, help="Do not serve it yet: `enable` does.")
@daemon_options
def add(
    name: str, token_env: str | None, token_file: Path | None, daemon: Daemon, *, disabled: bool, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Publish an agent. Prints the id of the inbound server.

    With --token-env or --token-file it asks its clients for that token from the first moment on.

    \b
    a2ad inbound add reports --description "Reporting agent" --preset standard
    a2ad inbound add reports --path /a2a/reports --token-file -
    """  # noqa: D301
    token = given_token(token_env, token_file, twice=True)
    fields = {**_fields(options), "name": name, "description": options["description"] or name}
    # nobody gets in before the token is set
    later = token is not None and not disabled
    with refusals(as_json):
        answer = daemon.act("inbound.create", **fields, enabled=not disabled and not later)
        identity = {"id": answer["id"]}
        if token is not None:
            daemon.act("inbound.setAuth", **identity, token=token)
        if later:
            daemon.act("inbound.enable", **identity)
    if as_json:
        echo_json({**answer, **identity})
        return
    note(answer["message"])
    click.echo(answer["id"])


@inbound.command()
@inbound_argument
@click.option("--name", metavar="TEXT", help="Another name.")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--version", "version_", metavar="TEXT", help="The card's.")
@preset_option
@path_option
@variable_option
@daemon_options
def update(inbound: str, daemon: Daemon, *, as_json: bool, **options: Any) -> None:
    """Change an inbound server; what is not named stays.

    \b
    a2ad inbound update reports --description "All reports" --version 1.1.0
    """  # noqa: D301
    fields = _fields(options)
    if not fields:
        raise click.UsageError("there is nothing to change")
    act_on_row(daemon, "inbound.update", "inbounds", inbound, as_json, **fields)


@inbound.command()
@inbound_argument
@daemon_options
def enable(inbound: str, daemon: Daemon, *, as_json: bool) -> None:
    """Serve it, now and after every start.

    \b
    a2ad inbound enable reports
    """  # noqa: D301
    act_on_row(daemon, "inbound.enable", "inbounds", inbound, as_json)


@inbound.command()
@inbound_argument
@daemon_options
def disable(inbound: str, daemon: Daemon, *, as_json: bool) -> None:
    """Keep it without serving it: tasks that run come to their end.

    \b
    a2ad inbound disable reports
    """  # noqa: D301
    act_on_row(daemon, "inbound.disable", "inbounds", inbound, as_json)


@inbound.command()
@inbound_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
@daemon_options
def remove(inbound: str, daemon: Daemon, *, yes: bool, as_json: bool) -> None:
    """Remove an inbound server with all its tasks, after asking. Without a terminal it wants --yes.

    \b
    a2ad inbound remove reports
    a2ad inbound remove reports --yes
    """  # noqa: D301
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: --yes removes it without")
    row = daemon.find("inbounds", inbound)
    if not yes:
        tasks = daemon.snapshot(taskLimit=1, taskServerId=row["id"])["taskTotal"]
        lost = f"with its {tasks} task(s), their artifacts and its token" if tasks else "with its token"
        click.confirm(f"Remove the inbound server {row['name']!r} ({row['id']}), {lost}?", abort=True, err=True)
    done(act(daemon, "inbound.remove", as_json, id=row["id"]), as_json)


@inbound.group()
def token() -> None:
    """Set or clear the token that its clients have to know. It is never shown again.

    \b
    a2ad inbound token set reports
    a2ad inbound token clear reports
    """  # noqa: D301


@token.command("set")
@inbound_argument
@token_options
@daemon_options
def token_set(inbound: str, token_env: str | None, token_file: Path | None, daemon: Daemon, *, as_json: bool) -> None:
    """Set it. Without an option it is asked for on a terminal, else read from standard input.

    It goes before the variable of --auth-token-env.

    \b
    a2ad inbound token set reports
    a2ad inbound token set reports --token-file token.txt
    """  # noqa: D301
    secret = needed_token(token_env, token_file, twice=True)
    act_on_row(daemon, "inbound.setAuth", "inbounds", inbound, as_json, token=secret)


@token.command("clear")
@inbound_argument
@daemon_options
def token_clear(inbound: str, daemon: Daemon, *, as_json: bool) -> None:
    """Forget it. Without the variable of --auth-token-env everybody may come in then.

    \b
    a2ad inbound token clear reports
    """  # noqa: D301
    act_on_row(daemon, "inbound.setAuth", "inbounds", inbound, as_json, token=None)


@inbound.command()
@inbound_argument
@daemon_options
def card(inbound: str, daemon: Daemon, *, as_json: bool) -> None:
    """Show the agent card as clients see it.

    --json has the card itself.

    \b
    a2ad inbound card reports
    a2ad inbound card reports --json
    """  # noqa: D301
    row = daemon.find("inbounds", inbound)
    found = daemon.get("/card", id=row["id"])
    if as_json:
        echo_json(found)
        return
    interfaces = found.get("supportedInterfaces") or ()
    details = {
        **{name: found.get(name) for name in ("name", "description", "version")},
        "provider": (found.get("provider") or {}).get("organization"),
        "url": ", ".join(str(each.get("url")) for each in interfaces) or found.get("url"),
        "card": f"{row['cardUrl']}/agent-card.json",
        "streaming": (found.get("capabilities") or {}).get("streaming"),
        "token": "wanted" if found.get("securityRequirements") else "not wanted",
    }
    show_lines(aligned(present(details)))
    if found.get("skills"):
        click.echo()
        skills = [{**skill, "tags": ", ".join(skill.get("tags") or ())} for skill in found["skills"]]
        show_lines(table(("id", "name", "tags", "description"), skills))


_COLUMNS = ("id", "name", "state", "preset", "token", "url", "error")
_SETTINGS = {
    "id": "id",
    "name": "name",
    "state": "state",
    "error": "error",
    "description": "description",
    "version": "version",
    "preset": "preset",
    "url": "cardUrl",
    "token": "token",
    "token variable": "authTokenEnv",
}


def _state(row: Row) -> str:
    return "error" if row.get("error") else "enabled" if row.get("enabled") else "disabled"


def _token(row: Row) -> str:
    return "set" if row.get("tokenSet") else "none"


def _fields(options: dict[str, Any]) -> Row:
    names = {"version_": "version", "path": "endpointPath", "auth_token_env": "authTokenEnv"}
    return given({names.get(name, name): value for name, value in options.items()})
