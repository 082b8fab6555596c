"""The ASGI application of the hot calls. Whatever it does not take goes to the fallback, untouched."""

import asyncio
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import structlog
from django.db import connections

from locks.api.base_view import record_use, team_of
from locks.api.errors import ApiError, internal_error, new_request_id, overloaded, unavailable
from locks.api.limits import limits
from locks.api.run_names import names_shown_to
from locks.api.waiting import NOT_ACQUIRED, wait_for_turn
from locks.engine.execution import Unavailable
from locks.queue.singletons import wait_queue
from locks.runs.names import PREFIXES
from octoadmin.batching.batcher import Batcher, Failed, RolledBack
from octoadmin.batching.head import Fallback, Reason, RequestHead, Unauthenticated, parse_head
from octoadmin.batching.operations import OPERATIONS, Operation, find_operation
from octoadmin.batching.refusals import Refusals, delay_refusal
from octoadmin.batching.static_headers import static_headers
from octoadmin.http.asgi_types import (
    CLIENT_GONE_STATUS,
    Application,
    ClientGone,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
)
from octoadmin.http.deferred import send_deferred, send_response, with_error_headers
from octoadmin.http.request_log import is_logged, log_request
from octoadmin.monitoring.batch_metrics import fallbacks
from octoadmin.monitoring.request_metrics import count_request
from octoadmin.wsgi_bridge.threads import Overloaded

_log = structlog.stdlib.get_logger(__name__)

# Listed from the start, with the value 0.
for _reason in Reason:
    fallbacks.labels(_reason.value)


class BatchingApplication:
    def __init__(self, fallback: Application, *, connections: int) -> None:
        self._fallback = Refusals(fallback)
        self.routes = {operation.name: Route(operation, connections=connections) for operation in OPERATIONS}

    async def stop(self, *, seconds: float) -> None:
        await asyncio.gather(*(route.batcher.stop(seconds=seconds) for route in self.routes.values()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = find_operation(scope["method"], scope["raw_path"])
        if found is None or scope["query_string"]:
            await self._fallback(scope, receive, send)
            return
        operation, raw_name = found
        request = FastRequest(self.routes[operation.name], scope, receive, send)
        try:
            await request.respond(raw_name)
        except Fallback as fallback:
            fallbacks.labels(fallback.reason.value).inc()
            await self._fallback(scope, request.replay, send)


class Route:
    """What the requests of an operation have in common."""

    def __init__(self, operation: Operation, *, connections: int) -> None:
        self.operation = operation
        self.batcher = Batcher(operation.statement, operation=operation.name, connections=connections)
        self._headers = {secure: static_headers(operation.view, secure=secure) for secure in (False, True)}

    def headers(self, request_id: str, *, secure: bool) -> Headers:
        return [*self._headers[secure], (b"x-request-id", request_id.encode())]


class FastRequest:
    """A request on the fast path. It ends with a response, with Fallback, or because its client has disconnected."""

    __slots__ = ("first_part", "head", "receive", "request_id", "route", "scope", "send", "started")

    def __init__(self, route: Route, scope: Scope, receive: Receive, send: Send) -> None:
        self.route = route
        self.scope = scope
        self.receive = receive
        self.send = send
        self.head: RequestHead | None = None
        self.first_part: Message | None = None
        self.request_id = new_request_id()
        self.started = time.perf_counter()

    async def replay(self) -> Message:
        """`receive` for the fallback: the message that was read already comes first."""
        if self.first_part is None:
            return await self.receive()
        message, self.first_part = self.first_part, None
        return message

    async def respond(self, raw_name: bytes) -> None:
        """Raises Fallback."""
        try:
            head = self.head = parse_head(self.scope)
        except Unauthenticated as refusal:
            await self._refuse(refusal.error, secure=refusal.secure)
            self._count("batched", refusal.error.status, None)
            return
        space_id = None
        kind = "batched"
        try:
            body = await self._read_body(head.content_length) if head.content_length else b""
            request, wait_seconds = self.route.operation.request(raw_name, head, self.request_id, body)
            with wait_queue.joining() if wait_seconds else nullcontext():
                result = await self._run(request, head)
            # From here until the queue knows the request nothing is awaited.
            waits = wait_seconds > 0 and result.verdict in NOT_ACQUIRED
            space_id = result.space_id
            record_use(result, digest=head.token.digest, address=head.address, agent=head.user_agent, waits=waits)
            if result.name is not None and result.name.startswith(PREFIXES):
                names_shown_to(head.token.hex_digest, (result.name,))((result,))
            if waits:
                kind = "waiting"
                status = await send_deferred(
                    wait_for_turn(request, wait_seconds=wait_seconds, waiter_id=result.waiter_id),
                    headers=self.route.headers(self.request_id, secure=head.secure),
                    receive=self.receive,
                    send=self.send,
                    request_id=self.request_id,
                )
            else:
                status, content = self.route.operation.response(result)
                headers = self.route.headers(self.request_id, secure=head.secure)
                await send_response(self.send, status, headers, content)
        except Fallback:
            raise
        except ClientGone:
            status = CLIENT_GONE_STATUS
        except Exception as error:
            if not isinstance(error, ApiError):
                if not isinstance(error, Failed):
                    _log.exception("a request failed", request_id=self.request_id)
                error = internal_error()
            status = error.status
            await self._refuse(error, secure=head.secure)
        self._count(kind, status, space_id)

    async def _refuse(self, error: ApiError, *, secure: bool) -> None:
        """The web server skips a body that was not read."""
        await delay_refusal(error)
        headers = self.route.headers(self.request_id, secure=secure)
        headers = with_error_headers(headers, error, request_id=self.request_id)
        await send_response(self.send, error.status, headers, error.body(request_id=self.request_id))

    async def _read_body(self, length: int) -> bytes:
        """Without a time limit: one for each request would cost as much as all of its parsing. Raises Fallback and
        ClientGone."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body: bytes = message["body"]
        self.first_part = message
        if len(body) != length:
            # The bridge bounds the time and the memory of bodies that come in parts.
            raise Fallback(Reason.BODY)
        return body

    async def _run(self, request: Any, head: RequestHead) -> Any:
        """The engine's result. Raises Fallback, ApiError and ClientGone."""
        digest = head.token.digest
        limits.check_address(head.address, digest)
        limits.check_token(digest)
        try:
            result = await self.route.batcher.submit(request, self.receive, space_id=limits.space_of(digest))
        except Overloaded:
            raise overloaded() from None
        except Unavailable:
            raise unavailable() from None
        except RolledBack:
            limits.refund(digest)
            raise Fallback(Reason.STATEMENT) from None
        return result

    def _count(self, kind: str, status: int, space_id: int | None) -> None:
        seconds = time.perf_counter() - self.started
        method = self.route.operation.method
        count_request(kind=kind, method=method, status=status, seconds=seconds)
        path: str = self.scope["path"]
        if is_logged(path=path, status=status):
            token = None if self.head is None else self.head.token.public_id
            context = {"request_id": self.request_id, "token": token}
            log = partial(log_request, method=method, path=path, status=status, seconds=seconds, **context)
            if space_id is None or status >= 500:
                log()
            else:
                asyncio.get_running_loop().run_in_executor(None, _log_with_team, space_id, log)


def _log_with_team(space_id: int, log: Callable[..., None]) -> None:
    """On a thread, which must not keep a database connection: the team's name may have to be queried."""
    try:
        log(team=team_of(space_id))
    finally:
        connections.close_all()
