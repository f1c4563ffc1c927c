"""`a2ad status`: how the daemon is, what it does, and what needs somebody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from a2ad.cli.acts import present
from a2ad.cli.inputs import daemon_options
from a2ad.cli.table import aligned, table
from a2ad.cli.terminal import echo_json, show_lines, word

if TYPE_CHECKING:
    from a2ad.cli.client import Daemon


@click.command()
@daemon_options
def status(daemon: Daemon, *, as_json: bool) -> None:
    """Show how the daemon is and what needs attention.

    The exit status is 1 where its health is not `ok`. --json has `url` and `panel`, and of the control API
    `health`, `attention` and `metrics`.

    \b
    a2ad status
    a2ad status --json
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    from a2ad.config.values import PANEL_PATH

    snapshot = daemon.snapshot(taskLimit=1)
    health, attention = snapshot.get("health") or {}, daemon.listed(snapshot, "attention")
    metrics = daemon.get("/metrics")
    panel = f"{daemon.url}{PANEL_PATH}/"
    if as_json:
        echo_json({"url": daemon.url, "panel": panel, "health": health, "attention": attention, "metrics": metrics})
    else:
        show_lines(aligned(present({"daemon": daemon.url, "panel": panel} | _details(health, snapshot, metrics))))
        if attention:
            click.echo()
            rows = [{**row, "state": row.get("kind"), "needs": row.get("message")} for row in attention]
            show_lines(table(("id", "state", "needs"), rows))
    raise SystemExit(health.get("status") != "ok")


def _details(health: dict[str, Any], snapshot: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    store = health.get("store") or {}
    counts = {word(state): count for state, count in (metrics.get("tasks") or {}).items()}
    tasks = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    served = sum(bool(row.get("enabled") and not row.get("error")) for row in snapshot.get("inbounds") or ())
    connected = sum(row.get("state") == "connected" for row in snapshot.get("outbounds") or ())
    return {
        "version": health.get("version"),
        "health": health.get("status"),
        "up": _duration(metrics.get("uptimeSeconds")),
        "store": "ok" if store.get("ok") else f"{store.get('error')}, since {store.get('since')}",
        "inbound": f"{served} of {metrics.get('inbounds')} served",
        "outbound": f"{connected} of {metrics.get('outbounds')} connected",
        "tasks": tasks or "none yet",
        "runs": f"{metrics.get('runs')} of {metrics.get('runsLimit')}, {metrics.get('queued')} waiting",
        "peers": metrics.get("peers"),
        "sessions": metrics.get("sessions"),
    }


def _duration(seconds: Any) -> str | None:
    if not isinstance(seconds, (int, float)):
        return None
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    units = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in units if count) or "0 s"
