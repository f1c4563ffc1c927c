"""`a2ad doctor`, run as a command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from a2ad.testing.daemon import plugins_dir
from a2ad.testing.toml import presets_toml

#: a bound that only a hang reaches, in seconds
PATIENCE = 120.0


def doctor(
    folder: Path, presets: Sequence[Mapping[str, Any]], *, plugin: str | Mapping[str, str] | None = None
) -> dict[str, str]:
    """What `a2ad doctor` says of each thing that it looks at, such as `preset mine (command)`, a line for each problem;
    empty where it is well.

    `presets` are tables with the keys of `[[presets]]`, `plugin` is as for `DaemonProcess`: `folder` gets both.
    """
    config = folder / "doctor.toml"
    config.write_text(presets_toml(presets))
    command = [sys.executable, "-m", "a2ad", "doctor", "--json", "--config", str(config)]
    if plugin is not None:
        command += ["--plugins-dir", str(plugins_dir(folder, plugin))]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=PATIENCE, check=False)
    found: dict[str, list[str]] = {}
    for row in json.loads(done.stdout):
        found.setdefault(row["subject"], []).append(row["message"])
    return {subject: "\n".join(messages) for subject, messages in found.items()}
