"""What load balancers, monitoring and the curious ask without a token: /health, /status, /metrics."""

import logging
import time
from collections.abc import Callable
from functools import wraps

from django.conf import settings
from django.db import Error
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.log import log_response
from django.views.decorators.csrf import csrf_exempt
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from locks.api.errors import RETRY_AFTER_SECONDS, invalid_input
from locks.api.exceptions import respond
from octoadmin.probes.counters import PATIENCE_SECONDS, counters
from octoadmin.probes.metrics import exposition
from octoadmin.serving.connection_checks import ask_database

_started_at = time.monotonic()
_logger = logging.getLogger(__name__)


def only_read(view: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Other methods are refused in the contract's words; nothing here needs a form's protection."""

    @csrf_exempt
    @wraps(view)
    def guarded(request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            response = respond(request, invalid_input(405, "This path is only read."))
            response["Allow"] = "GET, HEAD"
            return response
        return view(request)

    return guarded


@only_read
def health(request: HttpRequest) -> HttpResponse:
    """200 if this process and the database answer; 503 within seconds if the database does not."""
    try:
        ask_database(seconds=PATIENCE_SECONDS)
    except Error as error:
        return _unavailable(request, error, {"status": "unavailable", "database": "does not answer"})
    return _answer({"status": "ok"})


@only_read
def status(request: HttpRequest) -> HttpResponse:
    process: dict[str, str | int] = {
        "version": str(settings.VERSION),
        "uptime_seconds": int(time.monotonic() - _started_at),
    }
    try:
        now = counters()
    except Error as error:
        return _unavailable(request, error, {"status": "unavailable", **process})
    return _answer(
        {
            "status": "ok",
            **process,
            "live_locks": now.live_locks,
            "spaces": now.spaces,
            "server_time": now.server_time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
    )


@only_read
def metrics(_request: HttpRequest) -> HttpResponse:
    """Answers without the database too, since that is when somebody looks."""
    headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4, "Cache-Control": "no-store"}
    return HttpResponse(exposition(), headers=headers)


def _answer(body: dict[str, str | int]) -> JsonResponse:
    return JsonResponse(body, headers={"Cache-Control": "no-store"})


def _unavailable(request: HttpRequest, error: Error, body: dict[str, str | int]) -> JsonResponse:
    response = _answer(body)
    response.status_code = 503
    response["Retry-After"] = str(RETRY_AFTER_SECONDS)
    reason = "the database does not answer: %s"
    log_response(reason, str(error), response=response, request=request, logger=_logger, level="warning")
    return response
