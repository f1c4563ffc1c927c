"""What a client takes: the `Accept` header (RFC 9110, 12.5.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from aiohttp import hdrs, web


class MediaRange(NamedTuple):
    """`type` is in lower case, `quality` from 0 to 1: 1 where it cannot be read."""

    type: str
    parameters: Mapping[str, str]
    quality: float

    def fit(self, media_type: str, parameters: Mapping[str, str]) -> int | None:
        """How closely it describes this, None where it does not. A parameter that this has not keeps nothing out."""
        main = media_type.partition("/")[0]
        closeness = {media_type: 2, f"{main}/*": 1, "*/*": 0, "*": 0}.get(self.type)
        if closeness is None:
            return None
        shared = [name for name in self.parameters if name in parameters]
        if any(self.parameters[name] != parameters[name] for name in shared):
            return None
        return closeness + len(shared)


def media_ranges(request: web.BaseRequest) -> list[MediaRange]:
    """The ranges of all `Accept` headers; none where everything is taken."""
    parts = [part.strip() for header in request.headers.getall(hdrs.ACCEPT, ()) for part in header.split(",")]
    return [_media_range(part) for part in parts if part]


def _media_range(text: str) -> MediaRange:
    media_type, *pieces = (piece.strip().lower() for piece in text.split(";"))
    pairs = (piece.partition("=") for piece in pieces)
    parameters = {name.strip(): value.strip().strip('"') for name, _, value in pairs}
    quality = 1.0
    with suppress(ValueError):
        given = float(parameters.pop("q", "1"))
        quality = quality if math.isnan(given) else min(1.0, max(0.0, given))
    return MediaRange(media_type, parameters, quality)


def quality(ranges: Sequence[MediaRange], media_type: str, parameters: Mapping[str, str] | None = None) -> float:
    """How much a media type is wanted, from 0 (not at all) to 1: what the closest range says."""
    if not ranges:
        return 1.0
    fits = [(fit, held.quality) for held in ranges if (fit := held.fit(media_type, parameters or {})) is not None]
    return max(fits)[1] if fits else 0.0
