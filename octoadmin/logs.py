"""Structured logs: one event a line, JSON for machines, readable on a terminal.

The middleware and the authentication bind the request's id, the team and the token's public id to the context, so that
each line has them. Secrets are never passed to a logger; masking is the second defence, for what libraries might quote.
"""

import logging.config
import re
import sys
from typing import Any, cast

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

# A bearer token (its public id may stay readable) and anything after "Bearer ".
_SECRET = re.compile(r"(octo_[0-9A-Za-z]+_)[0-9A-Za-z]+|([Bb]earer )[^\s\"',]+")


def mask_secrets(_logger: WrappedLogger, _method: str, line: str) -> str:
    """The last step: no line contains a secret, wherever it comes from."""
    return _SECRET.sub(lambda match: f"{match[1] or match[2]}***", line)


def drop_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Django adds the request to its lines, and that shows the query string, which may contain secrets."""
    event.pop("request", None)
    return event


_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.ExtraAdder(),
    drop_request,
]


def logging_config(*, log_format: str, level: str) -> dict[str, Any]:
    """For logging.config.dictConfig: records of the standard library are formatted like structlog's."""
    readable = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    rendering: list[Processor] = (
        # The default traceback shows local variables where rich is installed, and with them passwords and lease ids.
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if readable
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "structured": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    *rendering,
                    cast(Processor, mask_secrets),
                ],
            },
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": {
            # A 4xx of the API is not an incident; a 5xx is logged where it is caught.
            "django.request": {"level": "ERROR"},
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            # One line for each request of a tool would repeat our own.
            "httpx": {"level": "WARNING"},
            "mcp": {"level": "WARNING"},
        },
    }


def configure(config: dict[str, Any]) -> None:
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED[:-2],
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(config)
