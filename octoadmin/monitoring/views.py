"""/health, /status and /metrics, which need no token."""

import logging
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TypeAlias

from django.conf import settings
from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.log import log_response
from django.views.decorators.csrf import csrf_exempt
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from locks.api.errors import RETRY_AFTER_SECONDS, invalid_input
from locks.api.exceptions import respond
from locks.system_state.counters import ANSWER_TIMEOUT, counters, totals
from locks.system_state.db_health import check_connection
from octoadmin.monitoring.prometheus import render_metrics

Body: TypeAlias = Mapping[str, str | int]

_started_at = time.monotonic()
_logger = logging.getLogger(__name__)


def read_only(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Other methods get a 405 in the contract's format. No CSRF check: nothing here changes anything."""

    @csrf_exempt
    @wraps(view)
    def guarded(request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            response = respond(request, invalid_input(405, "This path can only be read."))
            response["Allow"] = "GET, HEAD"
            return response
        return view(request)

    return guarded


@read_only
def health(request: HttpRequest) -> HttpResponse:
    """200 if this process and the database answer; 503 within seconds if the database does not. Leases need no worker:
    a missing one is only mentioned."""
    try:
        check_connection(seconds=ANSWER_TIMEOUT)
        size, worker = totals().database_bytes, "ok" if counters().worker_is_alive else "silent"
    except Error as error:
        body: Body = {"status": "unavailable", "healthy": False, "database": "does not answer"}
        return _unavailable(request, error, body)
    # OctoStore's fields beside our `status`.
    return _answer({"status": "ok", "healthy": True, "worker": worker, "storage": "postgresql", "db_size_bytes": size})


@read_only
def status(request: HttpRequest) -> HttpResponse:
    process: Body = {
        "version": str(settings.VERSION),
        "uptime_seconds": int(time.monotonic() - _started_at),
    }
    try:
        now, total = counters(), totals()
    except Error as error:
        return _unavailable(request, error, {"status": "unavailable", **process})
    return _answer(
        {
            "status": "ok",
            **process,
            "live_locks": now.live_locks,
            "spaces": now.spaces,
            # OctoStore's names.
            "active_locks": now.live_locks,
            "total_users": total.tokens,
            "total_acquires": total.acquired,
            "total_releases": total.released,
            "server_time": now.server_time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
    )


@read_only
def metrics(_request: HttpRequest) -> HttpResponse:
    """Also answers without the database."""
    headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4, "Cache-Control": "no-store"}
    return HttpResponse(render_metrics(), headers=headers)


def _answer(body: Body) -> JsonResponse:
    return JsonResponse(dict(body), headers={"Cache-Control": "no-store"})


def _unavailable(request: HttpRequest, error: Error, body: Body) -> JsonResponse:
    response = _answer(body)
    response.status_code = 503
    response["Retry-After"] = str(RETRY_AFTER_SECONDS)
    reason = "the database does not answer: %s"
    log_response(reason, str(error), response=response, request=request, logger=_logger, level="warning")
    return response
