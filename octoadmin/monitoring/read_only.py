"""What all monitoring paths have in common."""

import time
from collections.abc import Callable
from functools import wraps

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from locks.api.errors import invalid_input
from locks.api.exceptions import respond

STARTED_AT = time.monotonic()


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
