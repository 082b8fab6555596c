"""Structured logs: one event a line, JSON for machines, readable on a terminal.

What belongs to the request under way (its id, the team, the token's public id) is bound to the context by the
middleware and the authentication, so each line carries it. Secrets are never passed to a logger; the
processor below is the second fence, for what libraries might quote.
"""

import logging.config
import re
import sys
from typing import Any

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

# A bearer token (its public id may stay readable) and anything after "Bearer ".
_SECRET = re.compile(r"(octo_[0-9A-Za-z]+_)[0-9A-Za-z]+|([Bb]earer )[^\s\"',]+")


def _mask(text: str) -> str:
    return _SECRET.sub(lambda match: f"{match[1] or match[2]}***", text)


def mask_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: _mask(value) if isinstance(value, str) else value for key, value in event.items()}


_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.ExtraAdder(),
]


def logging_config(*, log_format: str, level: str) -> dict[str, Any]:
    """For logging.config.dictConfig: the standard library's records go the same way as structlog's."""
    readable = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    ending: list[Processor] = (
        [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        if readable
        else [structlog.processors.format_exc_info, mask_secrets, structlog.processors.JSONRenderer()]
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
                    mask_secrets,
                    *ending,
                ],
            },
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": {
            # Every 4xx of the API is an answer, not an incident; 5xx are logged where they are caught.
            "django.request": {"level": "ERROR"},
            "django.security.DisallowedHost": {"level": "CRITICAL"},
        },
    }


def configure(config: dict[str, Any]) -> None:
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED[:-1],
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(config)
