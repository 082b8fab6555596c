"""Names of namespaces exclude each other: `exact`, `tree` and `all`, by the table of the space."""

import pytest

pytestmark = pytest.mark.django_db

SRC = "path:src"

# Grite's own rules, and what follows from them. Each pair in both orders.
OVERLAPPING = [
    ("repo:deploy", "repo:deploy"),
    ("repo:deploy", "repo:migration"),
    ("repo:deploy", "path:src/main.rs"),
    ("repo:deploy", "path:"),
    ("repo:deploy", "issue:8057324b"),
    (SRC, SRC),
    (SRC, "path:src/main.rs"),
    (SRC, "path:src/lib.rs"),
    (SRC, "path:src/a/b/c/d.rs"),
    ("path:", SRC),
    ("path:", "path:docs/日本/語.md"),
    ("path:docs/日本", "path:docs/日本/語.md"),
    ("issue:1", "issue:1"),
]
SEPARATE = [
    (SRC, "path:tests"),
    (SRC, "path:docs/src"),
    (SRC, "path:src-old"),
    (SRC, "path:src.rs"),
    (SRC, "path:Src"),
    (SRC, "path:sr"),
    ("path:src/main", "path:src/main.rs"),
    ("path:docs/日本", "path:docs/日本語"),
    (SRC, "issue:src"),
    ("path:", "issue:1"),
    ("issue:1", "issue:2"),
    ("issue:1", "issue:1/2"),
    ("repo:deploy", "deploy"),
    ("repo:deploy", "repo"),
    ("repo:deploy", "branch:main"),
    ("path:", "path"),
    ("branch:main", "branch:main/a"),
    ("path:" + "x" * 251, "path:" + "x" * 250),
]


def both_orders(pairs):
    return sorted({*pairs, *((second, first) for first, second in pairs)})


@pytest.mark.parametrize(("held", "requested"), both_orders(OVERLAPPING))
def test_a_name_that_overlaps_is_held(engine, held, requested):
    lease = engine.acquire(held, owner="first", metadata="m")
    answer = engine.acquire(requested, owner="second")
    assert answer.verdict == "held"
    if held != requested:
        (blocker,) = answer.blocked_by
        assert (blocker["name"], blocker["owner"], blocker["metadata"]) == (held, "first", "m")
        assert (blocker["fencing_token"], blocker["holder_id"]) == (lease.fencing_token, lease.holder_id)
    engine.release(held, lease.lease_id)
    assert engine.acquire(requested, owner="second").verdict == "acquired"


@pytest.mark.parametrize(("held", "requested"), both_orders(SEPARATE))
def test_a_name_that_does_not_overlap_is_free(engine, held, requested):
    assert engine.acquire(held).verdict == "acquired"
    assert engine.acquire(requested).verdict == "acquired"
