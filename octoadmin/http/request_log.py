"""The log line of a request."""

import logging
from typing import Any
from urllib.parse import quote

import structlog

# Paths that people open in a browser.
PAGES = ("/ui/", "/admin/")
# The key of a request's id in its WSGI environ.
REQUEST_ID = "octoadmin.request_id"

_log = structlog.stdlib.get_logger(__name__)
_logger = logging.getLogger(__name__)


def is_logged(*, path: str, status: int) -> bool:
    """Checked before the line is built: for the API it is nearly always dropped."""
    return _logger.isEnabledFor(_level(path, status))


def log_request(*, method: str | None, path: str, status: int, seconds: float, **context: Any) -> None:
    level = _level(path, status)
    if _logger.isEnabledFor(level):
        # The path is quoted, so that it cannot break the line. The query is left out: it may contain secrets.
        _log.log(
            level, "request", method=method, path=quote(path), status=status, ms=round(seconds * 1000, 1), **context
        )


def _level(path: str, status: int) -> int:
    return logging.INFO if status >= 500 or path.startswith(PAGES) else logging.DEBUG
