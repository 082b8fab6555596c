"""The checker finds every kind of violation that is put into a history, and none in one that is possible."""

import copy

import pytest

from tests.torture.checker import check
from tests.torture.history import ClockStep, Delivered, Event, Fault, History, Op


def op(verb, invoked, returned, outcome, lease=None, token=None, **fields):
    return Op(
        verb=verb, name="deploy", invoked=invoked, returned=returned, outcome=outcome, lease_id=lease,
        fencing_token=token, **fields,
    )  # fmt: skip


def event(number, kind, token, at, **fields):
    return Event(id=number, kind=kind, name="deploy", fencing_token=token, at=at, **fields)


def possible() -> History:
    """A is granted, renewed and released while B waits; B is granted, and expires; C is granted without waiting."""
    ops = [
        op("acquire", 0.0, 0.1, "acquired", "a", 10, acquired_at=0.05, expires_at=5.05, request_id="r-a"),
        op("inspect", 0.2, 0.3, "held", token=10),
        op("acquire", 0.5, 2.2, "acquired", "b", 20, acquired_at=2.05, expires_at=4.05, request_id="r-b", waits=True),
        op("renew", 1.0, 1.1, "renewed", "a", expires_at=6.05),
        op("release", 2.0, 2.1, "released", "a"),
        op("renew", 2.3, 2.4, "refused", "a"),
        op("acquire", 4.2, 4.3, "acquired", "c", 30, acquired_at=4.25, expires_at=9.25, request_id="r-c"),
        op("renew", 4.5, 4.6, "refused", "b"),
    ]
    events = [
        event(1, "acquired", 10, 0.05, request_id="r-a"),
        event(2, "released", 10, 2.05),
        event(3, "acquired", 20, 2.05, request_id="r-b", place=0.55),
        event(4, "expired", 20, 4.25),
        event(5, "acquired", 30, 4.25, request_id="r-c"),
    ]
    delivered = [Delivered(watch=1, kind=one.kind, name=one.name, fencing_token=one.fencing_token) for one in events]
    return History(seed=1, ops=ops, events=events, delivered=delivered)


def test_a_possible_history_has_no_violation():
    assert check(possible()) == []


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


def overtaken(history):
    """C was sent at 0.9, after B had its place at 0.55, and is granted first."""
    history.ops[2].acquired_at, history.ops[2].fencing_token = 4.35, 40
    history.ops[2].returned = 4.5
    history.ops.append(
        op("acquire", 0.9, 2.3, "acquired", "d", 20, acquired_at=2.05, expires_at=4.05, request_id="r-d", waits=True)
    )
    history.ops = [one for one in history.ops if one.lease_id != "c"]
    history.events[2] = event(3, "acquired", 20, 2.05, request_id="r-d", place=0.95)
    history.events[4] = event(5, "acquired", 40, 4.35, request_id="r-b", place=0.55)
    history.ops[2].expires_at = 9.0
    history.ops = [one for one in history.ops if not (one.verb == "renew" and one.lease_id == "b")]


def idle(history):
    """B waits on after A has released, and is served late."""
    for one in history.events[2:]:
        one.at += 6
    history.stalls.append((2.5, 20.0))


def timed_out(history):
    """Nothing gets the name after C, whose lease has ended, until this wait is over."""
    history.events.append(event(6, "expired", 30, 9.25))
    history.ops.append(op("acquire", 9.5, 15.5, "none", request_id="r-d", waits=True))


VIOLATIONS = {
    "fencing: one token twice": ("fencing", change(6, fencing_token=20)),
    "fencing: it falls": ("fencing", change(6, fencing_token=5)),
    "overlap: granted before the release": ("overlap", change(4, invoked=2.25, returned=2.4)),
    "overlap: granted before the expiry": ("overlap", change(2, expires_at=8.0)),
    "lost: free though held": ("lost", add(op("inspect", 0.6, 0.7, "free"))),
    "lost: refused though held": ("lost", add(op("renew", 1.2, 1.3, "refused", "a"))),
    "stale: seen after its end": ("stale", add(op("inspect", 2.5, 2.6, "held", token=10))),
    "stale: seen after its expiry": ("stale", add(op("inspect", 12.0, 12.1, "held", token=30))),
    "revived: renewed after its release": ("revived", change(5, outcome="renewed")),
    "release: twice": ("release", add(op("release", 2.15, 2.2, "released", "a"))),
    "audit: a transition is missing": ("audit", change_events(lambda events: events.pop(1))),
    "audit: a transition is there twice": ("audit", change_events(lambda events: events.append(copy.copy(events[1])))),
    "audit: an end comes after the next lease": (
        "audit",
        change_events(lambda events: (setattr(events[1], "id", 3), setattr(events[2], "id", 2))),
    ),
    "audit: two ends": ("audit", change_events(lambda events: events.append(event(9, "expired", 10, 3.0)))),
    "order: a later request is served first": ("order", overtaken),
    "idle: a waiter is served late": ("idle", idle),
    "idle: a waiter is not served": ("idle", timed_out),
    "watch: an event is missing": ("watch", change_delivered(lambda delivered: delivered.pop(1))),
    "watch: an event comes twice": ("watch", change_delivered(lambda delivered: delivered.append(delivered[1]))),
    "watch: another order": ("watch", change_delivered(lambda delivered: delivered.insert(0, delivered.pop(1)))),
}


@pytest.mark.parametrize(("rule", "break_it"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_violation_is_found(rule, break_it):
    history = possible()
    break_it(history)
    assert rule in {violation.rule for violation in check(history)}


OPEN = {
    "a lost release may have ended it": add(
        op("release", 0.65, 0.9, "unknown", "a"), op("inspect", 1.5, 1.6, "free"), op("renew", 1.7, 1.8, "refused", "a")
    ),
    "a lost force-release may have ended it": add(
        op("force", 0.65, 0.9, "unknown"), op("inspect", 1.5, 1.6, "free"), op("renew", 1.7, 1.8, "refused", "a")
    ),
    "a lost renewal may have extended it": add(
        op("renew", 9.0, 9.1, "unknown", "c"), op("inspect", 12.0, 12.1, "held", token=30)
    ),
    "a lease that no client was told of may be seen": add(op("inspect", 2.15, 2.2, "held", token=15)),
    "the end of its session may have ended it": lambda history: (
        change(0, session="s")(history),
        add(
            op("open_session", -1.0, -0.9, "opened", session="s", expires_at=60.0),
            op("end_session", 1.2, 1.3, "ended", session="s"),
            op("inspect", 1.5, 1.6, "free"),
        )(history),
    ),
}


@pytest.mark.parametrize("extend", OPEN.values(), ids=OPEN)
def test_an_unknown_outcome_stays_open(extend):
    history = possible()
    extend(history)
    assert check(history) == []


def test_a_waiter_whose_server_stalled_may_be_passed_over():
    history = possible()
    overtaken(history)
    history.faults.append(Fault(kind="stop server", began=1.0, ended=1.5))
    history.delivered.clear()
    assert check(history) == []


def set_clock(history, *, began, offset):
    """And everything that the database dates from then on."""
    history.clock_steps.append(ClockStep(began=began, ended=began + 0.01, offset=offset))


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
    history.events[1].kind = "expired"
    history.delivered[1].kind = "expired"
    assert check(history) == []
    history.clock_steps.clear()
    assert {"lost"} <= {violation.rule for violation in check(history)}


def test_a_lease_that_was_granted_before_the_end_of_another_is_found_whatever_the_clock():
    history = possible()
    set_clock(history, began=3.0, offset=-0.5)
    history.ops[6].acquired_at, history.ops[2].expires_at = 3.75, 8.0
    assert "overlap" in {violation.rule for violation in check(history)}


def test_a_clock_that_was_set_back_may_show_less_than_the_end_of_a_lease():
    history = possible()
    set_clock(history, began=4.1, offset=-1.0)
    history.ops[6].acquired_at, history.ops[6].expires_at = 3.25, 8.25
    assert check(history) == []


def test_after_a_reset_a_watch_may_have_missed_events_and_none_elsewhere():
    history = possible()
    history.delivered[2] = Delivered(watch=1, kind="reset", name="", fencing_token=0)
    assert check(history) == []
    del history.delivered[0]
    assert "watch" in {violation.rule for violation in check(history)}


def test_a_waiter_whose_server_process_gave_no_sign_of_life_may_be_passed_over():
    history = possible()
    overtaken(history)
    history.stalls.append((1.0, 1.5))
    history.delivered.clear()
    assert check(history) == []
