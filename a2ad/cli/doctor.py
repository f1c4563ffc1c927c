"""`a2ad doctor`: what keeps the daemon, or an agent behind it, from working."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2ad.cli.inputs import json_option
from a2ad.cli.options import common_options, load_or_exit
from a2ad.cli.table import cell
from a2ad.cli.terminal import echo_json, has_colours, safe, style_of

if TYPE_CHECKING:
    from a2ad.config import Config

#: how long an agent may take to say what it lacks, in seconds
CHECK_SECONDS = 10.0
OK, WRONG = "ok", "wrong"


@click.command()
@common_options
@json_option
def doctor(config_file: Path | None, state_dir: Path | None, plugins_dir: tuple[Path, ...], *, as_json: bool) -> None:
    """Say what keeps a setting, a plugin or an agent from working.

    It checks the configuration, the plugins and the agents of all presets.

    \b
    a2ad doctor
    a2ad doctor --config ./a2ad.toml --plugins-dir ./plugins

    Ends with status 1 where something is wrong.
    """  # noqa: D301 - click's own mark for lines that are to stay as they are
    config = load_or_exit(config_file, state_dir=state_dir, plugins_dir=plugins_dir).config
    import asyncio

    with redirect_stdout(sys.stderr):
        found = asyncio.run(_examine(config))
    if as_json:
        echo_json(found)
    else:
        colours = has_colours(sys.stdout)
        for row in found:
            state = click.style(f"{row['state']:5}", **style_of(row["state"])) if colours else f"{row['state']:5}"
            told = f"  {cell(row['subject'])}" + (f": {safe(row['message'])}" if row["message"] else "")
            click.echo(state + told, color=colours)
    raise SystemExit(any(row["state"] == WRONG for row in found))


async def _examine(config: Config) -> list[dict[str, str]]:
    import asyncio

    from a2ad.builtin import check_store_scheme, load_plugins
    from a2ad.cli.loading import quiet_log
    from a2ad.errors import ConfigError

    wrong: list[str] = []
    host, pool = load_plugins(config, log=quiet_log())
    try:
        host.check_presets()
        check_store_scheme(config, host)
    except ConfigError as error:
        wrong = list(error.problems)
    found = [_row(f"plugin {plugin.name}", plugin.error or "") for plugin in host.plugins if plugin.state != "disabled"]
    presets = [preset for preset in host.presets.values() if preset.agent in host.agents]
    for preset, problems in zip(presets, await asyncio.gather(*(_check(host, each) for each in presets)), strict=True):
        found += [_row(f"preset {preset.id} ({preset.agent})", problem) for problem in problems or [""]]
        said = {f"preset {preset.id!r}: {problem}" for problem in problems}
        wrong = [problem for problem in wrong if problem not in said]
    await pool.close()
    await host.close()
    return [_row("configuration", problem) for problem in wrong or [""]] + found


async def _check(host: Any, preset: Any) -> list[str]:
    import asyncio

    from a2ad.agent import PresetError
    from a2ad.errors import error_text

    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return list(await host.agent(preset).check())
    except PresetError as error:
        return [str(error)]
    except TimeoutError:
        return [f"the agent has not said within {CHECK_SECONDS:g} s whether it works"]
    except Exception as error:  # noqa: BLE001 - a plugin's
        return [f"the agent cannot be checked: {error_text(error)}"]


def _row(subject: str, problem: str = "") -> dict[str, str]:
    return {"subject": subject, "state": WRONG if problem else OK, "message": problem}
