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
from locks.api.parked import IN_VAIN, turn_of
from locks.engine.execution import Unavailable
from locks.engine.verdicts import Verdict
from locks.hand_over import Later
from octoadmin.fast_lane.combiner import Combiner, Undone
from octoadmin.fast_lane.mail import Expected, Mail
from octoadmin.fast_lane.metrics import left_to_sync
from octoadmin.fast_lane.reading import Envelope, NotPlain, Reason, open_envelope
from octoadmin.fast_lane.surroundings import headers_of
from octoadmin.fast_lane.verbs import VERBS, Verb, verb_of
from octoadmin.probes.metrics import count_request
from octoadmin.serving.asgi_types import Application, Headers, Receive, Scope, Send
from octoadmin.serving.later import answer_later, with_refusal
from octoadmin.serving.request_body import ClientGone
from octoadmin.serving.threads import Overloaded

CLIENT_GONE = 499

_log = structlog.stdlib.get_logger(__name__)
_logger = logging.getLogger(__name__)


class FastLane:
    """Answers what is plain, and leaves the rest to `otherwise`."""

    def __init__(self, otherwise: Application, *, connections: int) -> None:
        self._otherwise = otherwise
        self._expected = Expected()
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
        passage = Passage(verb, scope, Mail(receive, self._expected), new_request_id())
        status = 500
        try:
            status, headers, body = await self._answer(passage, raw_name)
            if passage.later is None:
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
                    _log_request(passage, status=status, seconds=seconds)
        if not status:
            await self._otherwise(scope, passage.mail.again, send)
        elif passage.later is not None:
            await answer_later(
                passage.later, headers=headers, receive=passage.mail.further, send=send, request_id=passage.request_id
            )

    async def _answer(self, passage: "Passage", raw_name: bytes) -> tuple[int, Headers, bytes]:
        """Raises NotPlain and ClientGone. If the passage has a `later`, the body is still to come."""
        envelope = passage.envelope = open_envelope(passage.scope)
        request_id = passage.request_id
        headers = [*self._headers[passage.verb.name, envelope.secure], (b"x-request-id", request_id.encode())]
        try:
            body = await passage.mail.body(envelope.body_length) if envelope.body_length else b""
            status, answer = await self._outcome(passage, envelope, raw_name, body)
            if passage.later is not None:
                return status, headers, b""
        except Refusal as refusal:
            status, answer = refusal.status, refusal.body(request_id=request_id)
            headers = with_refusal(headers, refusal, request_id=request_id)
        headers.append((b"content-length", b"%d" % len(answer)))
        return status, headers, answer

    async def _outcome(self, passage: "Passage", envelope: Envelope, raw_name: bytes, body: bytes) -> tuple[int, bytes]:
        """Raises NotPlain, ClientGone and Refusal."""
        verb, digest = passage.verb, envelope.token.digest
        asked, wait_seconds = verb.asked(raw_name, envelope, passage.request_id, body)
        try:
            limits.check_address(envelope.address, digest)
            limits.check_token(digest)
        except Refusal:
            raise NotPlain(Reason.LIMIT) from None
        try:
            outcome = await self._combiners[verb.name].ask(asked, passage.mail)
        except Undone:
            limits.not_answered(digest)
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
        if outcome.verdict == Verdict.SETTLE:
            # Nothing was changed: the lock has to be looked after first, which takes more than one statement.
            limits.not_answered(digest)
            raise NotPlain(Reason.SETTLE)
        waits = wait_seconds > 0 and outcome.verdict in IN_VAIN
        space_id = note_use(outcome, digest=digest, address=envelope.address, agent=envelope.agent, waits=waits)
        if _logger.isEnabledFor(logging.DEBUG):
            passage.team = await asyncio.to_thread(_team, space_id)
        if waits:
            passage.later = turn_of(asked, wait_seconds=wait_seconds)
            return 200, b""
        return verb.answered(outcome)


class Passage:
    """A request on its way through the lane, and what is known of it so far."""

    __slots__ = ("envelope", "later", "mail", "request_id", "scope", "team", "verb")

    def __init__(self, verb: Verb, scope: Scope, mail: Mail, request_id: str) -> None:
        self.verb = verb
        self.scope = scope
        self.mail = mail
        self.request_id = request_id
        self.envelope: Envelope | None = None
        self.team: str | None = None
        self.later: Later | None = None


def _team(space_id: int) -> str:
    """On a thread of its own, which must not keep a database connection."""
    try:
        return team_of(space_id)
    finally:
        connections.close_all()


def _log_request(passage: Passage, *, status: int, seconds: float) -> None:
    about = {"token": passage.envelope.token.public_id} if passage.envelope else {}
    if passage.team is not None:
        about["team"] = passage.team
    _log.log(
        logging.INFO if status >= 500 else logging.DEBUG,
        "request",
        lane="fast",
        request_id=passage.request_id,
        method=passage.scope["method"],
        path=quote(passage.scope["raw_path"].decode("latin-1"), safe="/%"),
        status=status,
        ms=round(seconds * 1000, 1),
        **about,
    )
