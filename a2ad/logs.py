"""The daemon's own log, on stderr: one line per event, as text or as JSON."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor

from a2ad.config import LogConfig
from a2ad.model import now_ms, timestamp


def configure(config: LogConfig) -> None:
    """Set the log up for the whole process; what libraries log goes the same way, from warnings upwards."""
    level = logging.getLevelNamesMapping()[config.level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _stamped,
        structlog.processors.format_exc_info,
        _printable,
    ]
    if config.format == "json":
        ending: list[Processor] = [structlog.processors.JSONRenderer()]
    else:
        # tracebacks are plain text by then: richer ones show local variables, and so prompts and secrets
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


#: control characters, line separators and what turns the direction of writing: not for a terminal
_HARMFUL = {
    code: f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
_HARMFUL_BUT_LINES = {code: text for code, text in _HARMFUL.items() if chr(code) not in "\n\t"}


def _stamped(_logger: object, _method: str, event: EventDict) -> EventDict:
    """RFC 3339 in UTC, to the millisecond: a quarter of what structlog's own takes."""
    event["timestamp"] = timestamp(now_ms())
    return event


def _printable(_logger: object, _method: str, event: EventDict) -> EventDict:
    """What comes from outside may hold anything; a line of the log holds what can be shown. A traceback has lines."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = value.translate(_HARMFUL_BUT_LINES if name == "exception" else _HARMFUL)
    return event
