"""The ASGI application of the fast lane."""

import asyncio
import logging
import time
from functools import partial
from urllib.parse import quote

import structlog
from django.db import connections

from locks.api.endpoint import note_use, team_of
from locks.api.errors import Refusal, internal_error, new_request_id, overloaded, unavailable
from locks.api.limits import limits
from locks.engine.execution import Unavailable
from octoadmin.fast_lane.combiner import Combiner, Undone
from octoadmin.fast_lane.metrics import left_to_sync
from octoadmin.fast_lane.reading import Envelope, Mail, NotPlain, Reason, open_envelope
from octoadmin.fast_lane.surroundings import headers_of
from octoadmin.fast_lane.verbs import ANSWERED, VERBS, Verb, verb_of
from octoadmin.probes.metrics import count_request
from octoadmin.serving.asgi_types import Application, Headers, Receive, Scope, Send
from octoadmin.serving.request_body import ClientGone
from octoadmin.serving.threads import Overloaded

CLIENT_GONE = 499

_log = structlog.stdlib.get_logger(__name__)
_logger = logging.getLogger(__name__)


class FastLane:
    """Answers what is plain, and leaves the rest to `otherwise`."""

    def __init__(self, otherwise: Application, *, connections: int) -> None:
        self._otherwise = otherwise
        self._combiners = {
            verb.name: Combiner(verb.statement, operation=verb.name, connections=connections) for verb in VERBS
        }
        self._headers = {
            (verb.name, secure): headers_of(verb.view, secure=secure) for verb in VERBS for secure in (False, True)
        }

    def route(self, scope: Scope) -> Application | None:
        found = verb_of(scope["method"], scope["raw_path"])
        return None if found is None else partial(self._serve, *found)

    async def stop(self, *, seconds: float) -> None:
        for combiner in self._combiners.values():
            await combiner.stop(seconds=seconds)

    async def _serve(self, verb: Verb, raw_name: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        arrived = time.perf_counter()
        request_id = new_request_id()
        mail = Mail(receive)
        about: dict[str, str] = {}
        status = 500
        try:
            status, headers, body = await self._answer(verb, raw_name, scope, mail, request_id, about)
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        except NotPlain as not_plain:
            left_to_sync[not_plain.reason].inc()
            status = 0
        except ClientGone:
            status = CLIENT_GONE
        finally:
            if status:
                seconds = time.perf_counter() - arrived
                count_request(lane="fast", method=verb.method, status=status, seconds=seconds)
                if status >= 500 or _logger.isEnabledFor(logging.DEBUG):
                    _log_request(scope, request_id, status=status, seconds=seconds, about=about)
        if not status:
            await self._otherwise(scope, mail.again, send)

    async def _answer(
        self, verb: Verb, raw_name: bytes, scope: Scope, mail: Mail, request_id: str, about: dict[str, str]
    ) -> tuple[int, Headers, bytes]:
        """Raises NotPlain and ClientGone. `about` gets what the log is to say of the caller."""
        envelope = open_envelope(scope)
        about["token"] = envelope.token.public_id
        headers = self._headers[verb.name, envelope.secure]
        try:
            status, body = await self._outcome(verb, raw_name, envelope, mail, request_id, about)
            extra = []
        except Refusal as refusal:
            status, body = refusal.status, refusal.body(request_id=request_id)
            own = refusal.headers(request_id=request_id).items()
            extra = [(name.lower().encode(), value.encode()) for name, value in own if name not in _LANES_OWN]
        id_and_length = ((b"x-request-id", request_id.encode()), (b"content-length", b"%d" % len(body)))
        return status, [*headers, *extra, *id_and_length], body

    async def _outcome(
        self, verb: Verb, raw_name: bytes, envelope: Envelope, mail: Mail, request_id: str, about: dict[str, str]
    ) -> tuple[int, bytes]:
        """Raises NotPlain, ClientGone and Refusal."""
        body = await mail.body(envelope.body_length) if envelope.body_length else b""
        asked = verb.asked(raw_name=raw_name, envelope=envelope, request_id=request_id, body=body)
        digest = envelope.token.digest
        try:
            limits.check_address(envelope.address, digest)
            limits.check_token(digest)
        except Refusal:
            raise NotPlain(Reason.LIMIT) from None
        try:
            outcome = await self._combiners[verb.name].ask(asked, mail)
        except Undone:
            raise NotPlain(Reason.STATEMENT) from None
        except Overloaded:
            raise overloaded() from None
        except Unavailable:
            raise unavailable() from None
        except ClientGone:
            raise
        except Exception:
            # The combiner has logged it, once for all whom it concerns.
            raise internal_error() from None
        if outcome.verdict not in ANSWERED or outcome.space_id is None:
            # Nothing was changed, and DRF says why.
            raise NotPlain(Reason.VERDICT)
        note_use(outcome, digest=digest, space_id=outcome.space_id, address=envelope.address, agent=envelope.agent)
        if _logger.isEnabledFor(logging.DEBUG):
            about["team"] = await asyncio.to_thread(_team, outcome.space_id)
        return verb.answered(outcome)


def _team(space_id: int) -> str:
    """On a thread of its own, which must not keep a database connection."""
    try:
        return team_of(space_id)
    finally:
        connections.close_all()


_LANES_OWN = frozenset({"Content-Type", "X-Request-Id"})


def _log_request(scope: Scope, request_id: str, *, status: int, seconds: float, about: dict[str, str]) -> None:
    _log.log(
        logging.INFO if status >= 500 else logging.DEBUG,
        "request",
        lane="fast",
        request_id=request_id,
        method=scope["method"],
        path=quote(scope["raw_path"].decode("latin-1"), safe="/%"),
        status=status,
        ms=round(seconds * 1000, 1),
        **about,
    )
