"""The daemon's own log, on stderr: one line per event, as text or as JSON."""

from __future__ import annotations

import logging
import sys

import structlog

from a2ad.config import LogConfig


def configure(config: LogConfig) -> None:
    """Set structlog up for the whole process; what libraries log goes the same way, from warnings upwards."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        stamp,
    ]
    if config.format == "json":
        ending: list[structlog.typing.Processor] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    else:
        ending = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)]
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s"
    )
