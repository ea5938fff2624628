"""The server's own log: what it does, never what jobs are made of: no command, environment or token."""

import logging
import sys

import structlog

HIDDEN = frozenset({"command", "env", "environment", "token", "authorization", "body", "headers"})
"""Keys whose values never get into the log, whoever gives them."""


def set_up(level: str = "info") -> None:
    """Have everything logged to standard error, one line each."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            hidden,
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr)


def hidden(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Take out what is nobody's business."""
    for key in HIDDEN & event.keys():
        event[key] = "(hidden)"
    return event
