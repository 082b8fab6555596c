"""Decides whether a recorded history is one that the promises allow.

Fencing tokens order all grants of a name, so whether the history of a name is linearizable needs no search: every
observation is compared with what is certain about the leases around it. Unknown outcomes stay open: they may have taken
effect at any time after their invocation, so they make less certain and are never a violation themselves. Where the
audit history says how a lease ended, that counts, and it has to agree with the answers (audit_checker.py). Leases
expire by the clock of the database: when that was set, its times are compared with what it may have read (clocks.py).
"""

import bisect
import gc
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from tests.torture.audit_checker import check_audit, check_end
from tests.torture.clocks import DatabaseTime
from tests.torture.history import Event, History, KvOp, Op
from tests.torture.kv_checker import check_store
from tests.torture.leases import Lease, Session, sessions_of
from tests.torture.queue_checker import check_idle, check_order
from tests.torture.request_checker import check_requests
from tests.torture.session_checker import check_sessions
from tests.torture.violations import ROUNDING, Judgement, Violation, violation
from tests.torture.watch_checker import check_watches

# In the order of the table in docs/reliability.md.
RULES = {
    "overlap": "no two leases of a name overlap",
    "lost": "an acknowledged lease or session lasts until it ends",
    "fencing": "fencing tokens rise with every grant",
    "revived": "a lease or session that is over is neither extended nor ended",
    "stale": "no answer shows a lease that is over or not asked for yet",
    "release": "a lease is released once",
    "audit": "the history equals the transitions, one to one",
    "key": "a request that is sent again with its key gets the lease that it has, and no second one",
    "order": "first come, first served",
    "idle": "a name does not stay free while a request waits for it",
    "all": "acquire-all gets all or none",
    "watch": "a watch delivers every transition once and in order",
    "store": "the store is linearizable, path by path, and no version comes twice",
    "recovery": "the servers answer again after every fault",
}


def check(history: History) -> Judgement:
    """Without collections of garbage, which would look at each of a million objects again and again."""
    gc.disable()
    try:
        return _check(history)
    finally:
        gc.enable()


def _check(history: History) -> Judgement:
    judged = Counter(dict.fromkeys(RULES, 0))
    clock = DatabaseTime(history.clock_steps)
    sessions = sessions_of(history.ops, clock)
    ends = {(event.name, event.fencing_token): event for event in history.events if event.kind != "acquired"}
    by_name: dict[str, list[Op]] = defaultdict(list)
    for op in history.ops:
        if op.verb not in ("open_session", "keepalive", "end_session"):
            by_name[op.name].append(op)
    found: list[Violation] = []
    leases: dict[tuple[str, int], Lease] = {}
    for name, ops in sorted(by_name.items()):
        checker = _NameChecker(name, ops, sessions, ends, clock, judged)
        found += checker.check()
        leases.update(((name, token), lease) for token, lease in checker.by_token.items())
    found += check_sessions(history.ops, sessions, clock, judged)
    found += check_audit(history, ends, sessions, clock, judged)
    found += check_requests(history, ends, judged)
    found += check_order(history, judged)
    found += check_idle(history, leases, judged)
    found += check_watches(history, judged)

    def report_store(path: str, what: str, op: KvOp) -> None:
        found.append(Violation("store", path, what, op.invoked, op.returned))

    judged["store"] += check_store(history.kv_ops, report_store)
    judged["recovery"] += sum(not fault.error for fault in history.faults)
    found += [
        Violation("recovery", "", f"no answer after: {fault.kind}", fault.began, fault.ended)
        for fault in history.faults
        if fault.recovered is None
    ]
    times = [op.invoked for op in history.ops]
    found += [violation("audit", "", contradiction, times) for contradiction in history.contradictions]
    return Judgement(found, judged)


class _NameChecker:
    def __init__(
        self, name: str, ops: list[Op], sessions: dict[str, Session], ends: Mapping[tuple[str, int], Event],
        clock: DatabaseTime, judged: Counter[str],
    ) -> None:  # fmt: skip
        self.name = name
        self.judged = judged
        self.clock = clock
        self.ops = sorted(ops, key=lambda op: op.invoked)
        self.by_id: dict[str, Lease] = {}
        self.by_token: dict[int, Lease] = {}
        self.found: list[Violation] = []
        self._collect(sessions)
        for lease in self.by_token.values():
            lease.resolve(ends.get((name, lease.token)), clock)
        self.leases = sorted(self.by_token.values(), key=lambda lease: lease.token)
        self._by_grant = sorted(self.leases, key=lambda lease: lease.granted)
        self._grants = [lease.granted for lease in self._by_grant]
        self._highest = list(itertools.accumulate((lease.token for lease in self._by_grant), max))

    def _violation(self, rule: str, what: str, *times: float) -> None:
        self.found.append(violation(rule, self.name, what, times))

    def _collect(self, sessions: dict[str, Session]) -> None:
        by_owner: dict[str, Lease] = {}
        for op in self.ops:
            if op.outcome == "acquired":
                lease = self._granted(op, sessions)
                if op.has_key and op.owner is not None:
                    by_owner[op.owner] = lease
        for op in self.ops:
            if op.verb == "force":
                forced = self.by_token.get(op.fencing_token or 0)
                if op.outcome == "released" and forced is not None:
                    forced.releases.append(op)
                continue
            if op.verb == "acquire" and op.outcome == "unknown":
                lease_or_none = by_owner.get(op.owner or "")
            else:
                lease_or_none = self.by_id.get(op.lease_id or "")
            if lease_or_none is None:
                continue
            if op.verb == "release":
                if op.outcome == "released":
                    lease_or_none.releases.append(op)
            elif op.verb == "renew" or op.outcome == "unknown":
                lease_or_none.extend(op)

    def _granted(self, op: Op, sessions: dict[str, Session]) -> Lease:
        assert op.fencing_token is not None
        assert op.lease_id is not None
        lease = self.by_token.get(op.fencing_token)
        if lease is None:
            lease = self.by_token[op.fencing_token] = Lease(token=op.fencing_token, lease_id=op.lease_id)
        if lease.lease_id != op.lease_id:
            self._violation("fencing", f"two leases have the token {op.fencing_token}", op.invoked, op.returned)
        self.by_id[op.lease_id] = lease
        lease.asked = min(lease.asked, op.invoked)
        lease.granted = min(lease.granted, op.returned)
        lease.acquired_at = op.acquired_at
        if op.expires_at is not None:
            lease.expires_at = lease.first_expires_at = max(lease.expires_at, op.expires_at)
            lease.ttl = op.expires_at - (op.acquired_at or op.invoked)
        if op.session is not None:
            lease.session = sessions.get(op.session)
        return lease

    def check(self) -> list[Violation]:
        self._check_grants()
        for lease in self.leases:
            self.judged["release"] += len(lease.releases)
            if len(lease.releases) > 1:
                times = [op.returned for op in lease.releases]
                self._violation("release", f"{lease.token} was released twice", *times)
            for what, time in check_end(lease, self.clock):
                self._violation("audit", what, time, lease.asked)
        for op in self.ops:
            if op.outcome == "held" and op.fencing_token is not None:
                self._check_seen(op)
            elif op.outcome == "free":
                self._check_not_live(op, "the name was free")
            elif op.outcome == "refused":
                self._check_refused(op)
            elif op.outcome in ("renewed", "released") and op.verb in ("renew", "release"):
                self._check_effective(op)
        return self.found

    def _check_grants(self) -> None:
        latest_asked = -float("inf")
        for before, after in itertools.pairwise(self.leases):
            self.judged["fencing"] += 1
            latest_asked = max(latest_asked, before.asked)
            if after.granted < latest_asked:
                self._violation(
                    "fencing",
                    f"{after.token} was granted before a lower token was asked for",
                    after.granted,
                    latest_asked,
                )
            begins = after.acquired_at
            if begins is None:
                continue
            self.judged["overlap"] += 1
            # A clock that was set back may show less than the end of a lease that it has passed.
            if before.ends_at > begins + ROUNDING and not self.clock.is_steady(before.asked, after.granted):
                begins = self.clock.highest(before.asked, after.granted)
            if before.ends_at > begins + ROUNDING:
                self._violation(
                    "overlap", f"{after.token} was granted while {before.token} was held", begins, before.ends_at
                )

    def _check_seen(self, op: Op) -> None:
        assert op.fencing_token is not None
        self.judged["stale"] += 1
        highest = self._highest_before(op.invoked)
        if highest > op.fencing_token:
            self._violation(
                "stale", f"{op.fencing_token} was seen after {highest} was granted", op.invoked, op.returned
            )
        lease = self.by_token.get(op.fencing_token)
        if lease is None:
            return
        if lease.asked > op.returned:
            self._violation("stale", f"{lease.token} was seen before it was asked for", op.returned, lease.asked)
        if lease.has_ended < op.invoked:
            self._violation("stale", f"{lease.token} was seen after its end", lease.has_ended, op.invoked)
        elif self._is_after_expiry(lease, op):
            self._violation("stale", f"{lease.token} was seen after its expiry", lease.expires_at, op.invoked)

    def _is_after_expiry(self, lease: Lease, op: Op) -> bool:
        """Whether the whole operation came after the latest time at which it can have expired, but for the operation
        itself."""
        now = self.clock.lowest(op.invoked, op.returned) - ROUNDING
        if lease.session is None and now <= lease.first_expires_at:
            return False
        return now > lease.latest_end(op.returned, without=op)

    def _check_not_live(self, op: Op, what: str) -> None:
        self.judged["lost"] += 1
        for lease in self._recent(op.invoked):
            if self._is_certain(lease, op):
                self._violation("lost", f"{what} while {lease.token} was held", op.invoked, op.returned)

    def _is_certain(self, lease: Lease, op: Op) -> bool:
        """Whether it was held during the operation, whatever the unknown outcomes did."""
        is_granted = lease.granted <= op.invoked and lease.may_end > op.returned
        return is_granted and not lease.expires_before(self.clock.highest(lease.asked, op.returned) + ROUNDING)

    def _check_refused(self, op: Op) -> None:
        lease = self.by_id.get(op.lease_id or "")
        self.judged["lost"] += lease is not None
        if lease is not None and self._is_certain(lease, op):
            self._violation("lost", f"{lease.token} was not current though it was held", op.invoked, op.returned)

    def _check_effective(self, op: Op) -> None:
        lease = self.by_id.get(op.lease_id or "")
        if lease is None:
            return
        self.judged["revived"] += 1
        if lease.has_ended < op.invoked:
            self._violation("revived", f"{lease.token} was {op.outcome} after its end", lease.has_ended, op.returned)
        elif self._is_after_expiry(lease, op):
            self._violation("revived", f"{lease.token} was {op.outcome} after its expiry", op.invoked, op.returned)
        highest = self._highest_before(op.invoked)
        if highest > lease.token:
            self._violation(
                "revived", f"{lease.token} was {op.outcome} after {highest} was granted", op.invoked, op.returned
            )

    def _highest_before(self, time: float) -> int:
        """The highest token that was certainly granted before."""
        count = bisect.bisect_left(self._grants, time)
        return self._highest[count - 1] if count else 0

    def _recent(self, time: float) -> Iterator[Lease]:
        count = bisect.bisect_right(self._grants, time)
        yield from self._by_grant[max(count - 3, 0) : count]
