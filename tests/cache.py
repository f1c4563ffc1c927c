"""What the tests install once for all runs of a user's: real agents, and what npm brings."""

import os
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "a2ad-tests"
