"""The checker finds every kind of violation that is put into a history, and none in one that is possible."""

import copy
from functools import partial

import pytest

from tests.torture.audit_checker import RETURNED
from tests.torture.checker import check
from tests.torture.history import ClockStep, Delivered, Event, Fault, History, Op, Place

SESSION_ENDED = "its session was ended"
RESET = Delivered(watch=1, kind="reset", name="", fencing_token=0, at=2.5)


def op(verb, invoked, returned, outcome, lease=None, token=None, **fields):
    return Op(
        verb=verb, name="deploy", invoked=invoked, returned=returned, outcome=outcome, lease_id=lease,
        fencing_token=token, **fields,
    )  # fmt: skip


def event(number, kind, token, at, **fields):
    return Event(id=number, kind=kind, name="deploy", fencing_token=token, at=at, **fields)


def place(owner, at, *, seen=None, last):
    """In the queue; by default it is seen there 50 ms later."""
    return Place(name="deploy", owner=owner, at=at, seen=at + 0.05 if seen is None else seen, last=last)


def possible() -> History:
    """A is granted, renewed and released while B waits; B is granted, and expires; C is granted without waiting."""
    ops = [
        op("acquire", 0.0, 0.1, "acquired", "a", 10, acquired_at=0.05, expires_at=5.05, owner="A"),
        op("inspect", 0.2, 0.3, "held", token=10),
        op("acquire", 0.5, 2.2, "acquired", "b", 20, acquired_at=2.05, expires_at=4.05, owner="B", waits=True),
        op("renew", 1.0, 1.1, "renewed", "a", expires_at=6.05),
        op("release", 2.0, 2.1, "released", "a"),
        op("renew", 2.3, 2.4, "refused", "a"),
        op("acquire", 4.2, 4.3, "acquired", "c", 30, acquired_at=4.25, expires_at=9.25, owner="C"),
        op("renew", 4.5, 4.6, "refused", "b"),
    ]
    events = [
        event(1, "acquired", 10, 0.05, owner="A"),
        event(2, "released", 10, 2.05, owner="A"),
        event(3, "acquired", 20, 2.05, owner="B", place=0.55),
        event(4, "expired", 20, 4.25, owner="B", late=0.2),
        event(5, "acquired", 30, 4.25, owner="C"),
    ]
    delivered = [
        Delivered(watch=1, kind=one.kind, name=one.name, fencing_token=one.fencing_token, at=one.at + 0.2)
        for one in events
    ]
    places = [place("B", 0.55, last=1.9)]
    return History(seed=1, ops=ops, events=events, delivered=delivered, watches=[1], places=places)


def test_a_possible_history_has_no_violation():
    assert check(possible()).violations == []


def change(index, **fields):
    def apply(history):
        for name, value in fields.items():
            setattr(history.ops[index], name, value)

    return apply


def add(*ops):
    return lambda history: history.ops.extend(ops)


def change_events(work):
    return lambda history: work(history.events)


def change_delivered(work):
    return lambda history: work(history.delivered)


def both(*changes):
    def apply(history):
        for each in changes:
            each(history)

    return apply


def end(*rows):
    """C's lease has ended, and what follows."""

    def apply(history):
        for number, (kind, token, at, fields) in enumerate(rows, 6):
            history.events.append(event(number, kind, token, at, **fields))
            history.delivered.append(Delivered(watch=1, kind=kind, name="deploy", fencing_token=token, at=at))

    return apply


def of_c(kind, at, **fields):
    return end((kind, 30, at, {"owner": "C", **fields}))


def overtaken(history, *, sent=0.9):
    """D was sent after B had its place at 0.55 and was seen there at 0.6, and is granted first."""
    history.ops[2].acquired_at, history.ops[2].fencing_token = 4.35, 40
    history.ops[2].returned = 4.5
    history.ops.append(
        op("acquire", sent, 2.3, "acquired", "d", 20, acquired_at=2.05, expires_at=4.05, owner="D", waits=True)
    )
    history.ops = [one for one in history.ops if one.lease_id != "c"]
    history.events[2] = event(3, "acquired", 20, 2.05, owner="D", place=sent + 0.05)
    history.events[3].owner = "D"
    history.events[4] = event(5, "acquired", 40, 4.35, owner="B", place=0.55)
    history.ops[2].expires_at = 9.0
    history.ops = [one for one in history.ops if not (one.verb == "renew" and one.lease_id == "b")]
    history.delivered[4].fencing_token = 40


def overtaken_by_one_that_does_not_wait(history):
    overtaken(history)
    history.ops[-1].waits, history.events[2].place = False, None


def idle(history):
    """B waits on after A has released, and is served late."""
    for one in history.events[2:]:
        one.at += 6
    history.stalls.append((2.5, 20.0))


WAIT = op("acquire", 9.5, 15.5, "none", owner="D", waits=True, waited=5.95)


def acquired_when_its_time_was_up():
    """D waits from 9.5 to 17.5, and acquires the name, which was free, without having been handed it."""
    return both(
        of_c("expired", 9.3, late=0.05),
        end(("acquired", 40, 17.45, {"owner": "D"})),
        add(op("acquire", 9.5, 17.5, "acquired", "d", 40, acquired_at=17.45, expires_at=27.45, owner="D", waits=True)),
    )


def in_the_queue(*places):
    return lambda history: history.places.extend(places)


def served_meanwhile(asked, *places):
    """D waits from 9.5 to 15.5, and has its place at 9.55; E, sent at `asked`, is served at 13."""
    return both(
        in_the_queue(*places or [place("D", 9.55, last=15.4)]),
        end(
            ("expired", 30, 12.9, {"owner": "C", "late": 0.05}),
            ("acquired", 50, 13.0, {"owner": "E", "place": asked + 0.05}),
        ),
        add(
            op("renew", 7.8, 7.9, "renewed", "c", expires_at=12.85),
            WAIT,
            op("acquire", asked, 13.1, "acquired", "e", 50, acquired_at=13.0, expires_at=23.0, owner="E", waits=True),
        ),
    )


def session(*ops):
    """A's lease is bound to a session until 12.0."""
    opened = op("open_session", -1.0, -0.9, "opened", session="s", expires_at=12.0)
    return both(change(0, session="s"), add(opened, *ops))


def several(*outcomes, **fields):
    """An acquire-all of three names."""

    def apply(history):
        for number, outcome in enumerate(outcomes, 1):
            one = op("acquire", 5.0, 5.1, outcome, owner="X", all_of=len(outcomes), **fields)
            one.name = f"name-{number}"
            if outcome == "acquired":
                one.lease_id, one.fencing_token, one.acquired_at, one.expires_at = f"x{number}", 60, 5.05, 15.05
                row(60, 5.05, "X", one.name, 5 + number)(history)
            history.ops.append(one)

    return apply


def row(token, at, owner, name, number):
    """The grant of another name."""

    def apply(history):
        history.events.append(Event(id=number, kind="acquired", name=name, fencing_token=token, at=at, owner=owner))
        history.delivered.append(Delivered(watch=1, kind="acquired", name=name, fencing_token=token, at=at))

    return apply


def claims(second_at):
    """A claim-next whose answer was lost, and its repetition, which gets another name."""
    lost = op("acquire", 5.0, 5.1, "unknown", owner="K", has_key=True)
    again = op("acquire", 5.0, second_at + 0.1, "acquired", "k", 70, owner="K", has_key=True)
    lost.name, again.name = "one", "two"
    again.acquired_at, again.expires_at = second_at, second_at + 10
    return both(add(lost, again), row(60, 5.05, "K", "one", 6), row(70, second_at, "K", "two", 7))


def returned_by_its_server(*, place=9.95, told=False, **ends):
    """D waits, and its answer is lost; what it was granted is returned. Or its retry is told of the lease before."""
    again = op("acquire", 9.9, 10.15, "acquired", "d", 40, acquired_at=10.0, expires_at=20.0, owner="D", has_key=True)
    return both(
        of_c("expired", 9.3, late=0.05),
        end(
            ("acquired", 40, 10.0, {"owner": "D", "place": place}),
            ("released", 40, 10.2, {"owner": "D", "held": 0.2, "reason": RETURNED} | ends),
        ),
        add(
            op("acquire", 9.9, 10.1, "unknown", owner="D", waits=True, has_key=True),
            *([again] if told else ()),
        ),
    )


def ended_with_its_session(*, at, held, invoked=1.2, outcome="ended"):
    """A's lease. The end of its session is answered at 1.3."""
    return both(
        session(op("end_session", invoked, 1.3, outcome, session="s")),
        lambda history: history.ops.remove(history.ops[4]),
        lambda history: history.ops.remove(history.ops[3]),
        change_events(
            lambda events: [
                setattr(events[1], name, value)
                for name, value in (("at", at), ("held", held), ("reason", SESSION_ENDED))
            ]
        ),
    )


def forced(history):
    """By a request whose answer was lost."""
    history.ops[4] = op("force", 2.0, 2.1, "unknown")
    history.events[1].kind = history.delivered[1].kind = "force_released"


VIOLATIONS = {
    "fencing: one token twice": ("fencing", change(6, fencing_token=20)),
    "fencing: it falls": ("fencing", change(6, fencing_token=5)),
    "overlap: granted before the release": ("overlap", change(4, invoked=2.25, returned=2.4)),
    "overlap: granted long before the release, and told after it": (
        "overlap",
        both(change(4, invoked=3.0, returned=3.1), change(2, returned=3.2)),
    ),
    "overlap: granted before the expiry": ("overlap", change(2, expires_at=8.0)),
    "overlap: granted before the expiry, after a force-release whose outcome is unknown": (
        "overlap",
        both(forced, change(2, expires_at=8.0)),
    ),
    "lost: free though held": ("lost", add(op("inspect", 0.6, 0.7, "free"))),
    "lost: refused though held": ("lost", add(op("renew", 1.2, 1.3, "refused", "a"))),
    "lost: free after a release that the history does not have": (
        "lost",
        add(op("release", 4.7, 4.8, "unknown", "c"), op("inspect", 5.0, 5.1, "free")),
    ),
    "lost: free before the release that the history has": (
        "lost",
        both(change(4, invoked=1.3, outcome="unknown"), add(op("inspect", 1.5, 1.6, "free"))),
    ),
    "lost: free after a force-release of the lease before": (
        "lost",
        both(forced, add(op("inspect", 5.0, 5.1, "free"))),
    ),
    "lost: a keepalive is refused though the session is live": (
        "lost",
        session(op("keepalive", 1.2, 1.3, "refused", session="s")),
    ),
    "lost: an acquire is refused though its session is live": (
        "lost",
        session(op("acquire", 1.2, 1.3, "refused", session="s")),
    ),
    "stale: seen after its end": ("stale", add(op("inspect", 2.5, 2.6, "held", token=10))),
    "stale: seen after a higher one was granted": ("stale", add(op("inspect", 4.4, 4.5, "held", token=20))),
    "stale: seen before it was asked for": ("stale", add(op("inspect", 3.9, 4.0, "held", token=30))),
    "stale: seen after its expiry": ("stale", add(op("inspect", 12.0, 12.1, "held", token=30))),
    "stale: seen later than a lost renewal can have extended it": (
        "stale",
        add(op("renew", 9.0, 9.1, "unknown", "c"), op("inspect", 20.0, 20.1, "held", token=30)),
    ),
    "stale: seen after the end of its session": (
        "stale",
        session(op("end_session", 1.2, 1.3, "ended", session="s"), op("inspect", 1.5, 1.6, "held", token=10)),
    ),
    "revived: renewed after its release": ("revived", change(5, outcome="renewed")),
    "revived: renewed after its expiry": ("revived", add(op("renew", 9.5, 9.6, "renewed", "c", expires_at=14.55))),
    "revived: released after its expiry": (
        "revived",
        both(add(op("release", 9.5, 9.6, "released", "c")), of_c("released", 9.55)),
    ),
    "revived: renewed after a higher one was granted": (
        "revived",
        change(7, outcome="renewed", expires_at=6.5),
    ),
    "revived: renewed after the end of its session": (
        "revived",
        session(op("end_session", 1.2, 1.3, "ended", session="s"), op("renew", 1.5, 1.6, "renewed", "a")),
    ),
    "revived: a session after its end": (
        "revived",
        session(
            op("end_session", 1.2, 1.3, "ended", session="s"),
            op("keepalive", 1.5, 1.6, "kept_alive", session="s", expires_at=12.5),
        ),
    ),
    "revived: a session after its expiry": (
        "revived",
        session(op("keepalive", 12.5, 12.6, "kept_alive", session="s", expires_at=22.5)),
    ),
    "release: twice": ("release", add(op("release", 2.15, 2.2, "released", "a"))),
    "key: the answer is its own lease": (
        "key",
        both(
            change(6, has_key=True),
            add(op("acquire", 4.2, 4.5, "held", token=30, owner="C", has_key=True)),
        ),
    ),
    "key: a second lease": ("key", claims(6.0)),
    "all: two of three": ("all", several("acquired", "acquired", "none")),
    "all: two of three, by the history": (
        "all",
        both(
            several("unknown", "unknown", "unknown"), row(60, 5.05, "X", "name-1", 6), row(60, 5.05, "X", "name-2", 7)
        ),
    ),
    "audit: it is empty": ("audit", change_events(lambda events: events.clear())),
    "audit: a transition is missing": ("audit", change_events(lambda events: events.pop(1))),
    "audit: a transition is there twice": ("audit", change_events(lambda events: events.append(copy.copy(events[1])))),
    "audit: an end comes after the next lease": (
        "audit",
        change_events(lambda events: (setattr(events[1], "id", 3), setattr(events[2], "id", 2))),
    ),
    "audit: two ends": ("audit", change_events(lambda events: events.append(event(9, "expired", 10, 3.0)))),
    "audit: a grant that no request asked for": (
        "audit",
        both(of_c("expired", 9.3, late=0.05), end(("acquired", 40, 10.0, {"owner": "stranger"}))),
    ),
    "audit: a grant to a request that was refused": (
        "audit",
        both(
            of_c("expired", 9.3, late=0.05),
            end(("acquired", 40, 10.0, {"owner": "D"})),
            add(op("acquire", 9.9, 10.1, "held", token=39, owner="D")),
        ),
    ),
    "audit: a grant before it was asked for": ("audit", change(6, invoked=4.26)),
    "audit: a grant to a waiter after it was answered": (
        "audit",
        both(
            of_c("expired", 9.3, late=0.05),
            end(("acquired", 40, 10.0, {"owner": "D", "place": 9.45})),
            add(op("acquire", 9.4, 9.9, "none", owner="D", waits=True, waited=0.5)),
        ),
    ),
    "audit: a release that no request asked for": ("audit", of_c("released", 6.0)),
    "audit: a release of a lease that no client was told of": (
        "audit",
        both(change(6, outcome="unknown"), of_c("released", 6.0)),
    ),
    "audit: the holder has released a lease that no client was told of": (
        "audit",
        returned_by_its_server(reason=None),
    ),
    "audit: the server has returned a lease that a retry was told of": ("audit", returned_by_its_server(told=True)),
    "audit: the server has returned a lease that was not handed over": ("audit", returned_by_its_server(place=None)),
    "audit: a lease lasted longer than its session": ("audit", ended_with_its_session(at=1.8, held=1.75)),
    "audit: a lease ended before its session": ("audit", ended_with_its_session(at=1.25, held=0.9)),
    "audit: a lease that was asked for after the end of its session ended with it": (
        "audit",
        both(
            session(op("end_session", 3.0, 3.1, "ended", session="s")),
            change(6, session="s"),
            of_c("released", 5.0, reason=SESSION_ENDED),
        ),
    ),
    "audit: a force-release that no request asked for": ("audit", of_c("force_released", 6.0)),
    "audit: a release at another time than its request": (
        "audit",
        change_events(lambda events: setattr(events[1], "at", 1.9)),
    ),
    "audit: an expiry before the end": ("audit", of_c("expired", 6.0)),
    "audit: an expiry that was recorded before it": ("audit", of_c("expired", 6.0, late=-3.25)),
    "audit: an expiry later than the end": ("audit", of_c("expired", 20.0)),
    "order: a later request is served first": ("order", overtaken),
    "order: a request is served first that was sent 20 ms after another was seen in the queue": (
        "order",
        partial(overtaken, sent=0.62),
    ),
    "order: a later request that does not wait is served first": ("order", overtaken_by_one_that_does_not_wait),
    "order: a later request is served while another waits until its time is up": ("order", served_meanwhile(11.0)),
    "order: a request that is sent 50 ms later is served while another waits until its time is up": (
        "order",
        served_meanwhile(9.65),
    ),
    "idle: a waiter is served late": ("idle", idle),
    "idle: a waiter is not served": ("idle", both(of_c("expired", 9.3, late=0.05), add(WAIT))),
    "idle: a waiter acquires the name when its time is up, though it was free long before": (
        "idle",
        acquired_when_its_time_was_up(),
    ),
    "idle: the end of the lease is recorded when the wait is over": (
        "idle",
        both(of_c("expired", 16.0, late=6.75), add(WAIT)),
    ),
    "idle: the end of the lease is not recorded": ("idle", add(WAIT)),
    "watch: an event is missing": ("watch", change_delivered(lambda delivered: delivered.pop(1))),
    "watch: an event comes twice": ("watch", change_delivered(lambda delivered: delivered.append(delivered[1]))),
    "watch: another order": ("watch", change_delivered(lambda delivered: delivered.insert(0, delivered.pop(1)))),
    "watch: it delivers nothing": ("watch", change_delivered(lambda delivered: delivered.clear())),
    "watch: it delivers nothing but a reset": (
        "watch",
        change_delivered(lambda delivered: delivered.__setitem__(slice(None), [RESET])),
    ),
    "watch: a reset without a reason": ("watch", change_delivered(lambda delivered: delivered.insert(2, RESET))),
    "recovery: the servers do not answer again": (
        "recovery",
        lambda history: history.faults.append(Fault(kind="kill server", began=20.0, ended=20.5)),
    ),
}


@pytest.mark.parametrize(("rule", "break_it"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_violation_is_found(rule, break_it):
    history = possible()
    break_it(history)
    found = [violation for violation in check(history).violations if violation.rule == rule]
    assert found
    assert all(violation.ended > 0 for violation in found)


OPEN = {
    "a lost release may have ended it": both(
        of_c("released", 5.0),
        add(
            op("release", 4.7, 4.9, "unknown", "c"),
            op("inspect", 5.5, 5.6, "free"),
            op("renew", 5.7, 5.8, "refused", "c"),
        ),
    ),
    "a lost force-release may have ended it": both(
        of_c("force_released", 5.0),
        add(op("force", 4.7, 4.9, "unknown"), op("inspect", 5.5, 5.6, "free"), op("renew", 5.7, 5.8, "refused", "c")),
    ),
    "a lost renewal may have extended it": add(
        op("renew", 9.0, 9.1, "unknown", "c"),
        op("inspect", 12.0, 12.1, "held", token=30),
        op("renew", 12.2, 12.3, "renewed", "c", expires_at=17.25),
    ),
    "a lost repetition of the acquire may have extended it": both(
        change(6, has_key=True),
        add(
            op("acquire", 4.2, 4.5, "unknown", owner="C", has_key=True),
            op("inspect", 9.4, 9.5, "held", token=30),
        ),
    ),
    "an expiry may be recorded late": of_c("expired", 16.0, late=6.75),
    "a lease that no client was told of may be seen": add(op("inspect", 2.15, 2.2, "held", token=15)),
    "a lease that no client was told of may expire": both(
        of_c("expired", 9.3, late=0.05),
        end(("acquired", 40, 10.0, {"owner": "D"}), ("expired", 40, 12.1, {"owner": "D", "late": 0.1})),
        add(op("acquire", 9.9, 10.1, "unknown", owner="D")),
    ),
    "a waiter may be handed a lock and not take it": both(
        of_c("expired", 9.3, late=0.05),
        end(
            ("acquired", 40, 10.0, {"owner": "D", "place": 9.95}),
            ("released", 40, 10.2, {"owner": "D", "reason": RETURNED}),
        ),
        add(op("acquire", 9.9, 10.5, "none", owner="D", waits=True, waited=0.5)),
    ),
    "a handover may be dated before the request that gets it": both(
        change(2, invoked=2.06),
        change_events(lambda events: setattr(events[2], "place", 2.05)),
    ),
    "a lease may expire before its request is answered": both(
        of_c("expired", 9.3, late=0.05),
        end(
            ("acquired", 40, 10.0, {"owner": "D"}),
            ("expired", 40, 12.0, {"owner": "D", "late": 1.0}),
            ("acquired", 50, 12.0, {"owner": "D"}),
        ),
        add(op("acquire", 9.9, 12.1, "acquired", "d", 50, acquired_at=12.0, expires_at=13.0, owner="D")),
    ),
    "the end of its session may have ended it": both(
        session(
            op("end_session", 1.2, 1.3, "unknown", session="s"),
            op("inspect", 1.9, 2.0, "free"),
            op("keepalive", 1.5, 1.6, "refused", session="s"),
        ),
        change(4, outcome="refused"),
        change_events(
            lambda events: [
                setattr(events[1], *each) for each in (("at", 1.8), ("held", 1.75), ("reason", SESSION_ENDED))
            ]
        ),
    ),
    "the end of its session may be recorded later": ended_with_its_session(at=1.8, held=1.2),
    "a lease may be granted while its session ends": both(
        session(op("end_session", 4.21, 4.22, "ended", session="s")),
        change(6, session="s"),
        of_c("released", 5.0, reason=SESSION_ENDED),
    ),
    "a lease may be returned by the server of a waiter that has gone": returned_by_its_server(),
    "its session may have expired": both(
        session(op("inspect", 12.5, 12.6, "free"), op("keepalive", 12.2, 12.3, "refused", session="s")),
        change(6, session="s", expires_at=34.25),
    ),
    "a lost keepalive may have extended the session": session(
        op("keepalive", 11.5, 11.6, "unknown", session="s"),
        op("keepalive", 12.5, 12.6, "kept_alive", session="s", expires_at=22.5),
    ),
    "a claim gets another lease when the first is over": claims(40.0),
    "all of three names": several("acquired", "acquired", "acquired"),
    "an acquire-all that waits may have been handed one name": both(
        several("none", "none", "none", waits=True), row(60, 5.05, "X", "name-1", 6)
    ),
    "a request that was sent before another waited may be served first": served_meanwhile(9.4),
    "a request that was sent before the place of another was committed may be served first": served_meanwhile(
        11.0, place("D", 9.55, seen=11.1, last=15.4)
    ),
    "a request may be served before another whose time is up": served_meanwhile(11.0, place("D", 9.55, last=12.9)),
    "a request may be served before another that gets a new place": served_meanwhile(
        11.0, place("D", 9.55, last=10.9), place("D", 12.0, last=15.4)
    ),
    "a request may be served before another that is not seen in the queue": served_meanwhile(
        11.0, place("F", 9.55, last=9.6)
    ),
    "a repeated request may not have waited all the time": both(
        acquired_when_its_time_was_up(), add(op("acquire", 9.5, 9.6, "unknown", owner="D", waits=True))
    ),
    "a waiter gets nothing while the name is held": both(
        add(op("renew", 9.0, 9.1, "renewed", "c", expires_at=39.05), WAIT)
    ),
    "a waiter gets nothing while a lost renewal may hold the name": add(op("renew", 9.2, 9.21, "unknown", "c"), WAIT),
}


@pytest.mark.parametrize("extend", OPEN.values(), ids=OPEN)
def test_an_unknown_outcome_stays_open(extend):
    history = possible()
    extend(history)
    assert check(history).violations == []


def test_a_request_that_was_sent_while_the_commit_of_another_stalled_may_be_served_first():
    history = possible()
    overtaken(history)
    history.places[0].seen = 0.91
    assert check(history).violations == []


def test_each_rule_counts_what_it_judges():
    history = possible()
    served_meanwhile(9.4)(history)
    judged = check(history).judged
    counts = {"overlap": 3, "lost": 2, "fencing": 3, "stale": 1, "revived": 3, "audit": 12, "order": 2, "idle": 1}
    assert {rule: judged[rule] for rule in counts} == counts
    assert check(history).unjudged == ["key", "all", "store", "recovery"]


def test_a_waiter_whose_server_stalled_may_be_passed_over():
    history = possible()
    overtaken(history)
    history.faults.append(Fault(kind="stop server", began=1.0, ended=1.5, recovered=1.6))
    assert check(history).violations == []


def set_clock(history, *, began, offset):
    """And everything that the database dates from then on."""
    history.clock_steps.append(ClockStep(began=began, ended=began + 0.01, offset=offset))
    history.faults.append(Fault(kind="set the clock", began=began, ended=began + 0.01, recovered=began + 0.01))


def test_a_lease_ends_earlier_if_the_clock_is_set_forwards():
    history = possible()
    set_clock(history, began=0.8, offset=30.0)
    for op_ in history.ops[2:]:
        if op_.acquired_at is not None:
            op_.acquired_at += 30
        if op_.expires_at is not None:
            op_.expires_at += 30
    history.ops[3] = op("renew", 1.0, 1.1, "refused", "a")
    history.ops[4] = op("release", 2.0, 2.1, "refused", "a")
    for row_ in history.events[1:]:
        row_.at += 30
    history.events[1].kind = history.delivered[1].kind = "expired"
    history.events[1].late = 27.0
    assert check(history).violations == []
    history.clock_steps.clear()
    assert {"lost"} <= {violation.rule for violation in check(history).violations}


def test_a_clock_that_was_set_does_not_show_that_a_retry_was_told_of_a_lease():
    history = possible()
    returned_by_its_server(told=True)(history)
    set_clock(history, began=10.12, offset=-0.5)
    history.events[-1].at, history.delivered[-1].at = 9.7, 9.7
    assert check(history).violations == []


def test_a_lease_that_was_granted_before_the_end_of_another_is_found_whatever_the_clock():
    history = possible()
    set_clock(history, began=3.0, offset=-0.5)
    history.ops[6].acquired_at, history.ops[2].expires_at = 3.75, 8.0
    assert "overlap" in {violation.rule for violation in check(history).violations}


def test_a_clock_that_was_set_back_may_show_less_than_the_end_of_a_lease():
    history = possible()
    set_clock(history, began=4.1, offset=-1.0)
    history.ops[6].acquired_at, history.ops[6].expires_at, history.events[4].at = 3.25, 8.25, 3.25
    assert check(history).violations == []


def test_after_a_reset_a_watch_may_have_missed_events_of_the_loss_and_none_elsewhere():
    history = possible()
    history.faults.append(Fault(kind="lose the primary", began=1.9, ended=2.1, recovered=2.2))
    history.delivered[2] = RESET
    history.delivered.insert(2, RESET)
    assert check(history).violations == []
    history.faults[0].began = history.faults[0].ended = history.faults[0].recovered = 30.0
    assert "watch" in {violation.rule for violation in check(history).violations}
    history.faults[0].began = history.faults[0].ended = history.faults[0].recovered = 2.0
    del history.delivered[0]
    assert "watch" in {violation.rule for violation in check(history).violations}


def test_a_waiter_whose_server_process_gave_no_sign_of_life_may_be_passed_over():
    history = possible()
    overtaken(history)
    history.stalls.append((1.0, 1.5))
    assert check(history).violations == []


def test_how_long_a_name_was_free_is_not_known_near_a_step_of_the_clock():
    history = possible()
    idle(history)
    assert "idle" in {violation.rule for violation in check(history).violations}
    history.clock_steps.append(ClockStep(began=-20.0, ended=-19.9, offset=0.0))
    assert "idle" not in {violation.rule for violation in check(history).violations}
