"""/health, /status and /metrics, which need no token; only /metrics in JSON does."""

import logging
import time
from collections.abc import Mapping
from typing import TypeAlias

from django.conf import settings
from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.log import log_response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from locks.api.errors import RETRY_AFTER_SECONDS
from locks.system_state.counters import ANSWER_TIMEOUT, counters, totals
from locks.system_state.db_health import check_connection
from locks.system_state.writes import check_writes
from octoadmin.monitoring.octostore import json_metrics, wants_json
from octoadmin.monitoring.prometheus import render_metrics
from octoadmin.monitoring.read_only import STARTED_AT, read_only

Body: TypeAlias = Mapping[str, str | int]

_logger = logging.getLogger(__name__)


@read_only
def health(request: HttpRequest) -> HttpResponse:
    """200 if this process answers and the database can write; otherwise 503 within seconds. Leases need no worker: a
    missing one is only mentioned."""
    state = "no primary answers"
    try:
        check_connection(seconds=ANSWER_TIMEOUT)
        state = "cannot write"
        check_writes()
        size, worker = totals().database_bytes, "ok" if counters().worker_is_alive else "silent"
    except Error as error:
        return _unavailable(request, error, {"status": "unavailable", "healthy": False, "database": state})
    # OctoStore's fields beside our `status`.
    return _answer({"status": "ok", "healthy": True, "worker": worker, "storage": "postgresql", "db_size_bytes": size})


@read_only
def status(request: HttpRequest) -> HttpResponse:
    process: Body = {
        "version": str(settings.VERSION),
        "uptime_seconds": int(time.monotonic() - STARTED_AT),
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
def metrics(request: HttpRequest) -> HttpResponse:
    """Also answers without the database."""
    if wants_json(request):
        return json_metrics(request)
    headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4, "Cache-Control": "no-store", "Vary": "Accept"}
    return HttpResponse(render_metrics(), headers=headers)


def _answer(body: Body) -> JsonResponse:
    return JsonResponse(dict(body), headers={"Cache-Control": "no-store"})


def _unavailable(request: HttpRequest, error: Error, body: Body) -> JsonResponse:
    response = _answer(body)
    response.status_code = 503
    response["Retry-After"] = str(RETRY_AFTER_SECONDS)
    reason = "the database failed a check: %s"
    log_response(reason, str(error), response=response, request=request, logger=_logger, level="warning")
    return response
