"""The daemon's own log, on stderr: one line per event, as text or as JSON."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import Processor

from a2ad.config import LogConfig


def configure(config: LogConfig) -> None:
    """Set the log up for the whole process; what libraries log goes the same way, from warnings upwards."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if config.format == "json":
        ending: list[Processor] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        # a plain traceback: richer ones show local variables, and so prompts and secrets
        plain = structlog.dev.plain_traceback
        colors = sys.stderr.isatty()
        ending = [structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=0, exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    logging.basicConfig(level=max(level, logging.WARNING), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
