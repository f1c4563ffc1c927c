"""The key of an endpoint, and how it is kept out of everything that is said."""

from __future__ import annotations

import re

from a2ad.agents.openai.options import Options
from a2ad.credentials import is_token, read_secret
from a2ad.executor import TaskFailed
from a2ad.outbound.text import MASK, MESSAGE, Mask, line

#: what is shorter is no secret but a placeholder, as local servers want one, in characters
SHORTEST_KEY = 8

# keys by the prefixes that providers give them, bearer tokens, what is named as a key, JSON Web Tokens, and keys that
# a provider has made half unreadable itself
_LIKE_KEYS = re.compile(
    r"""
    \b(?:sk|pk|rk|gsk|xai|hf|nvapi|pplx|csk|fw|tgp|r8)[-_][\w*.-]{3,}[\w*]
    | \bAIza[\w-]{16,}
    | (?P<bearer>(?i:\bbearer\s+))[^\s"',;]{3,}[^\s"',;.]
    | (?P<named>(?i:\bapi[\s_-]?key(?:\s+provided)?["']?\s*[:=]\s*["']?))[^\s"',;]{3,}[^\s"',;.]
    | \beyJ[\w-]{8,}\.[\w-]+\.[\w-]*
    | [\w-]{0,40}\*{3,}[\w*-]*
    """,
    re.VERBOSE,
)


def _without_keys(text: str) -> str:
    return _LIKE_KEYS.sub(lambda found: (found["bearer"] or found["named"] or "") + MASK, text)


class Key:
    """A key, empty where there is none. `mask` takes it out of a text, and `tell` whatever looks like one too."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.mask = Mask([value] if len(value) >= SHORTEST_KEY else [])

    def tell(self, text: object) -> str:
        """What went wrong, on one line, bounded, and without keys."""
        return line(str(text), MESSAGE, lambda said: _without_keys(self.mask(said)))


def read_key(options: Options) -> Key:
    """Raises `TaskFailed` where the key that the preset names is not there."""
    name = options.api_key_env
    if not name:
        return Key("")
    value = read_secret(name)
    if value is None:
        raise TaskFailed(
            Key("").tell(f"The API key is missing: no credential or environment variable has the name {name}")
        )
    if not is_token(value):
        raise TaskFailed(Key("").tell(f"The API key in {name} has characters that no header can carry"))
    return Key(value)
