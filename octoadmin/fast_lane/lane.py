"""The fast lane itself: takes what is plain from a connection, and answers it there."""

import asyncio
import logging
import time
from functools import partial
from typing import Any
from urllib.parse import quote

import structlog
from django.db import connections

from locks.api.base_view import record_use, team_of
from locks.api.errors import ApiError, internal_error, new_request_id, overloaded, unavailable
from locks.api.limits import limits
from locks.api.waiting import NOT_ACQUIRED, wait_for_turn
from locks.async_responses import Later
from locks.engine.execution import Unavailable
from locks.engine.verdicts import Verdict
from octoadmin.fast_lane.combiner import Combiner, Undone
from octoadmin.fast_lane.metrics import left_to_sync
from octoadmin.fast_lane.reading import MAX_REMEMBERED_HEADERS, Envelope, NotPlain, Reason, open_envelope
from octoadmin.fast_lane.surroundings import headers_of
from octoadmin.fast_lane.verbs import VERBS, Verb, verb_of
from octoadmin.probes.metrics import count_request
from octoadmin.serving.asgi_types import Application, Headers, Receive, Scope, Send
from octoadmin.serving.connection import Connection, Exchange, lines_of
from octoadmin.serving.later import answer_later, with_refusal
from octoadmin.serving.request_body import ClientGone, too_slow
from octoadmin.serving.threads import Overloaded

CLIENT_GONE = 499

_log = structlog.stdlib.get_logger(__name__)
_logger = logging.getLogger(__name__)


class FastLane:
    """Answers what is plain, and leaves the rest to `otherwise`."""

    def __init__(self, otherwise: Application, *, connections: int) -> None:
        self.otherwise = otherwise
        self._ways = {
            verb.name: Way(Combiner(verb.statement, operation=verb.name, connections=connections), verb)
            for verb in VERBS
        }

    def open(self, connection: Connection, method: str, target: bytes) -> "Passage | None":
        """By the head alone, before the body is here."""
        found = verb_of(method, target)
        if found is None:
            return None
        verb, raw_name = found
        try:
            envelope, body_length = open_envelope(connection.scope, connection.envelope)  # type: ignore[arg-type]
        except NotPlain as not_plain:
            left_to_sync[not_plain.reason].inc()
            return None
        connection.envelope = envelope if len(envelope.headers) <= MAX_REMEMBERED_HEADERS else None
        return Passage(connection, self, self._ways[verb.name], target, raw_name, envelope, body_length)

    async def stop(self, *, seconds: float) -> None:
        await asyncio.gather(*(way.combiner.stop(seconds=seconds) for way in self._ways.values()))


class Way:
    """What the passages of a verb have in common."""

    def __init__(self, combiner: Combiner, verb: Verb) -> None:
        self.combiner = combiner
        self.verb = verb
        # Those of a connection that is secure, and of one that is not.
        self._headers = {secure: headers_of(verb.view, secure=secure) for secure in (False, True)}
        self._lines = {secure: lines_of(headers) for secure, headers in self._headers.items()}

    def headers(self, *, secure: bool, request_id: str) -> Headers:
        return [*self._headers[secure], (b"x-request-id", request_id.encode())]

    def lines(self, *, secure: bool, request_id: str) -> bytes:
        return b"%bx-request-id: %b\r\n" % (self._lines[secure], request_id.encode())


class Passage(Exchange):
    """A request on its way through the lane; in the combiner, the turn that it waits for.

    Every call ends in one of four ways: an answer, the sync lane, a place in line, or nobody left to answer.
    """

    __slots__ = (
        "arrival", "asked", "body_length", "envelope", "lane", "raw_name", "request_id", "rounds", "since",
        "wait_seconds", "way",
    )  # fmt: skip

    asked: Any

    def __init__(
        self,
        connection: Connection,
        lane: FastLane,
        way: Way,
        target: bytes,
        raw_name: bytes,
        envelope: Envelope,
        body_length: int,
    ) -> None:
        super().__init__(connection, way.verb.method, target)
        self.lane = lane
        self.way = way
        self.raw_name = raw_name
        self.envelope = envelope
        self.body_length = body_length
        self.request_id = new_request_id()
        self.arrival = time.perf_counter()
        self.rounds = 0
        self.since = 0.0
        self.wait_seconds = 0

    def arrived(self) -> None:
        try:
            self._ask()
        except NotPlain as not_plain:
            self._leave(not_plain.reason)
        except ApiError as refusal:
            self._refuse(refusal)
        except Exception as error:
            _log.exception("a request could not be read", request_id=self.request_id)
            self.fail(error)

    def late(self) -> None:
        self._refuse(too_slow())

    def _ask(self) -> None:
        """Raises NotPlain and ApiError."""
        envelope = self.envelope
        digest = envelope.token.digest
        if len(self.body) != self.body_length:
            raise NotPlain(Reason.BODY)
        self.asked, self.wait_seconds = self.way.verb.asked(self.raw_name, envelope, self.request_id, self.body)
        try:
            limits.check_address(envelope.address, digest)
            limits.check_token(digest)
        except ApiError:
            raise NotPlain(Reason.LIMIT) from None
        try:
            self.way.combiner.ask(self)
        except Overloaded:
            raise overloaded() from None
        except Unavailable:
            raise unavailable() from None

    def settle(self, outcome: Any) -> None:
        envelope = self.envelope
        digest = envelope.token.digest
        try:
            if outcome.verdict == Verdict.NEEDS_HANDOVER:
                # Nothing was changed: the lock has to be looked after first, which takes more than one statement.
                limits.refund(digest)
                self._leave(Reason.SETTLE)
                return
            waits = self.wait_seconds > 0 and outcome.verdict in NOT_ACQUIRED
            space_id = record_use(outcome, digest=digest, address=envelope.address, agent=envelope.agent, waits=waits)
            if waits:
                self._stand_in_line(space_id)
                return
            status, body = self.way.verb.answered(outcome)
        except ApiError as refusal:
            self._refuse(refusal, space_id=outcome.space_id)
        except Exception as error:
            _log.exception("an answer could not be made", request_id=self.request_id)
            self.fail(error)
        else:
            self.answer(status, self.way.lines(secure=envelope.secure, request_id=self.request_id), body)
            self._is_over(status, space_id)

    def fail(self, error: Exception) -> None:
        match error:
            case ClientGone():
                self._is_over(CLIENT_GONE)
            case Undone():
                limits.refund(self.envelope.token.digest)
                self._leave(Reason.STATEMENT)
            case Unavailable():
                self._refuse(unavailable())
            case _:
                # It was logged where it happened, once for all whom it concerns.
                self._refuse(internal_error())

    def _refuse(self, refusal: ApiError, *, space_id: int | None = None) -> None:
        headers = self.way.headers(secure=self.envelope.secure, request_id=self.request_id)
        lines = lines_of(with_refusal(headers, refusal, request_id=self.request_id))
        self.answer(refusal.status, lines, refusal.body(request_id=self.request_id))
        self._is_over(refusal.status, space_id)

    def _leave(self, reason: Reason) -> None:
        left_to_sync[reason].inc()
        self.go_on(self.lane.otherwise)

    def _stand_in_line(self, space_id: int) -> None:
        self._is_over(200, space_id)
        later = wait_for_turn(self.asked, wait_seconds=self.wait_seconds)
        headers = self.way.headers(secure=self.envelope.secure, request_id=self.request_id)
        self.go_on(partial(_answer_later, later, headers, self.request_id), with_body=False)

    def _is_over(self, status: int, space_id: int | None = None) -> None:
        seconds = time.perf_counter() - self.arrival
        count_request(lane="fast", method=self.way.verb.method, status=status, seconds=seconds)
        if status >= 500 or _logger.isEnabledFor(logging.DEBUG):
            _log_request(self, status=status, seconds=seconds, space_id=space_id)


async def _answer_later(
    later: Later, headers: Headers, request_id: str, _scope: Scope, receive: Receive, send: Send
) -> None:
    await answer_later(later, headers=headers, receive=receive, send=send, request_id=request_id)


def _log_request(passage: Passage, *, status: int, seconds: float, space_id: int | None) -> None:
    about = {
        "request_id": passage.request_id,
        "method": passage.way.verb.method,
        "path": quote(passage.scope["raw_path"].decode("latin-1"), safe="/%"),
        "status": status,
        "ms": round(seconds * 1000, 1),
        "token": passage.envelope.token.public_id,
    }
    if status >= 500:
        _log.info("request", lane="fast", **about)
    else:
        # Elsewhere: the team's name may have to be looked up.
        asyncio.get_running_loop().run_in_executor(None, _log_with_team, space_id, about)


def _log_with_team(space_id: int | None, about: dict[str, Any]) -> None:
    """On a thread, which must not keep a database connection."""
    try:
        team = {} if space_id is None else {"team": team_of(space_id)}
    finally:
        connections.close_all()
    _log.debug("request", lane="fast", **about, **team)
