"""The checker of the store finds every violation that is put into a history, and none in one that is possible."""

import pytest

from tests.torture.checker import check
from tests.torture.history import History, KvOp

PATH = "/shared/a"


def op(verb, invoked, returned, outcome="ok", version=None, **fields):
    return KvOp(verb=verb, name=PATH, invoked=invoked, returned=returned, outcome=outcome, version=version, **fields)


def possible() -> list[KvOp]:
    """Written, swapped, deleted, and written again with the next version."""
    return [
        op("get", 0.0, 0.1, "absent", 0),
        op("put", 0.2, 0.3, version=1, expected=0, value=10),
        op("get", 0.4, 0.5, version=1, value=10),
        op("put", 0.6, 0.7, version=2, expected=1, value=20),
        op("put", 0.65, 0.75, "mismatch", 2, expected=1),
        op("delete", 1.0, 1.1, version=0, expected=2),
        op("get", 1.2, 1.3, "absent", 0),
        op("put", 1.4, 1.5, version=3, expected=0, value=30),
        op("put", 1.6, 1.7, "mismatch", 3, expected=2),
        op("put", 1.8, 2.0, version=4, value=40),
        op("get", 1.9, 1.95, version=3, value=30),
    ]


def violations(ops):
    return [violation.what for violation in check(History(seed=1, kv_ops=ops)).violations if violation.rule == "store"]


def test_a_possible_history_has_no_violation():
    assert violations(possible()) == []


VIOLATIONS = {
    "two writes with one version": [op("put", 2.1, 2.2, version=4, value=50)],
    "a version again after a deletion": [op("put", 1.12, 1.18, version=1, expected=0, value=50)],
    "a lost update": [op("put", 2.1, 2.2, version=4, expected=3, value=50)],
    "a swap of another version": [op("put", 2.1, 2.2, version=6, expected=4, value=50)],
    "a swap of a version that was deleted": [op("put", 1.35, 1.38, version=3, expected=2, value=50)],
    "an old version": [op("get", 2.1, 2.2, version=3, value=30)],
    "a version before it was written": [op("get", 0.8, 0.9, version=3, value=30)],
    "a version after it was deleted": [op("get", 1.35, 1.38, version=2, value=20)],
    "another value": [op("get", 2.1, 2.2, version=4, value=30)],
    "no entry, though one was written": [op("get", 2.1, 2.2, "absent", 0)],
    "written as new, though one was there": [op("put", 2.1, 2.2, version=5, expected=0, value=50)],
    "deleted twice": [op("delete", 1.12, 1.18, version=0, expected=2)],
    "an old version deleted": [op("delete", 2.1, 2.2, version=0, expected=3)],
}


@pytest.mark.parametrize("added", VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_violation_is_found(added):
    assert violations([*possible(), *added])


OPEN = {
    "a lost write may be seen": [
        op("put", 2.1, 2.2, "unknown", value=50),
        op("get", 2.3, 2.4, version=5, value=50),
    ],
    "a lost deletion may have happened": [
        op("delete", 2.1, 2.2, "unknown", expected=4),
        op("get", 2.3, 2.4, "absent", 0),
        op("put", 2.5, 2.6, version=5, expected=0, value=50),
    ],
    "a deletion of any version may have deleted the last": [
        op("delete", 2.1, 2.2, version=0),
        op("get", 2.15, 2.4, "absent", 0),
    ],
    "a read during a write may see either": [
        op("put", 2.1, 2.5, version=5, value=50),
        op("get", 2.2, 2.3, version=5, value=50),
        op("get", 2.15, 2.3, version=4, value=40),
    ],
}


@pytest.mark.parametrize("added", OPEN.values(), ids=OPEN)
def test_an_unknown_outcome_stays_open(added):
    assert violations([*possible(), *added]) == []
