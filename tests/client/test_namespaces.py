"""Names that overlap: in the client's own rules, in FakeServer, and on the command line."""

import pytest

from octo import names
from octo.testing import FakeServer
from tests.client.command_line import CommandLine
from tests.client.served_fake import served


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("repo:a", "repo:b", True), ("repo:a", "path:src", True), ("repo:a", "issue:1", True),
        ("repo:a", "deploy", False),
        ("path:src", "path:src/main.rs", True), ("path:src", "path:src/a/b", True), ("path:src", "path:src", True),
        ("path:src", "path:tests", False), ("path:src", "path:src-old", False),
        ("path:src/main", "path:src/main.rs", False),
        ("path:", "path:docs/x", True), ("path:Src", "path:src", False),
        ("issue:1", "issue:1", True), ("issue:1", "issue:1/a", False), ("issue:1", "path:src", False),
        ("plain/a", "plain/a/b", False), ("other:a", "other:a/b", False), ("other:a", "repo:a", False),
    ],
)  # fmt: skip
def test_which_names_overlap(one, other, expected):
    assert names.overlap(one, other) is names.overlap(other, one) is expected


def test_a_lease_covers_what_lies_below_it():
    assert names.covers("path:src", "path:src/a")
    assert not names.covers("path:src/a", "path:src")
    assert names.covers("repo:x", "path:src")
    assert not names.covers("path:", "repo:x")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("path:./src//auth/./x/", "path:src/auth/x"), ("path:/src", "path:src"), ("path:.", "path:"),
        ("path:/", "path:"),
        ("deploy//main", "deploy//main"), ("a/b:c//d", "a/b:c//d"),
    ],
)  # fmt: skip
def test_one_spelling_is_stored(name, expected):
    assert names.canonical(name) == expected


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("src/auth.rs", "path:src/auth.rs"), ("app/[id]/a b.ts", "path:app/=5Bid=5D/a=20b.ts"), ("a=b", "path:a=b"),
        ("a=5B", "path:a=3D5B"), ("...", "path:=2E=2E=2E"), ("grün.md", "path:grün.md"),
        ("x/" * 100 + "y" * 200, "path:" + "/".join("x" * 100)), (b"\xff".decode(errors="surrogateescape"), "path:=FF"),
    ],
)  # fmt: skip
def test_every_file_has_a_lock(file, expected):
    assert names.of_file(file) == expected
    with FakeServer().client() as client:
        assert client.acquire(expected).name == expected


def test_a_file_of_a_repository_that_shares_its_space():
    assert names.of_file("src/x", prefix="acme/app/") == "path:acme/app/src/x"


@pytest.fixture
def fake() -> FakeServer:
    return FakeServer(tokens={"a": ["locks:read", "locks:write"], "b": ["locks:read", "locks:write"]})


@pytest.mark.parametrize("policy", ["off", "warn", "require"])
def test_a_check(fake, policy):
    fake.lock_policy = policy
    with fake.client("a") as a, fake.client("b") as b:
        a.acquire("path:src", owner="anna")
        mine = b.acquire("path:docs")
        free = b.check(["path:docs/x"], lease_ids=[mine.lease_id])
        assert (free.decision, free.policy, free.conflicts, free.missing) == ("clear", policy, (), ())
        held = b.check(["path:src/x", "path:docs/x"], lease_ids=[mine.lease_id])
        assert held.decision == {"off": "clear", "warn": "warn", "require": "block"}[policy]
        assert [(one.name, one.blocked_by[0].name) for one in held.conflicts] == [("path:src/x", "path:src")]
        assert held.missing == ("path:src/x",)
        assert b.check(["path:docs"]).decision == (
            "block" if policy == "require" else "clear" if policy == "off" else "warn"
        )


@pytest.fixture
def shell(fake, tmp_path):
    """The command line of two people: the second has a token, a state and a shell of its own."""
    with served(fake) as url:
        one = CommandLine({"OCTO_URL": url, "OCTO_TOKEN": "a", "OCTO_HOLDER": "one"}, tmp_path)
        yield one, CommandLine({"OCTO_URL": url, "OCTO_TOKEN": "b", "OCTO_HOLDER": "two"}, tmp_path)


def test_acquire_prints_every_blocker(shell):
    one, other = shell
    assert one.run("lock", "acquire", "path:src/auth.rs", "--owner", "anna").returncode == 0
    assert one.run("lock", "acquire", "path:src/api.rs", "--owner", "berta").returncode == 0
    refused = other.run("lock", "acquire", "--resource", "path:./src/")
    assert refused.returncode == 4
    assert refused.stderr.startswith("Error: Lock conflict\n  Resource: path:src\n  Owner: anna\n  Expires: 20")
    assert "  Blocked by:\n    path:src/auth.rs  anna   expires in" in refused.stderr
    assert "\n    path:src/api.rs   berta  expires in" in refused.stderr
    told = other.json("lock", "acquire", "path:src")
    assert [(one["resource"], one["owner"]) for one in told["blocked_by"]] == [
        ("path:src/auth.rs", "anna"), ("path:src/api.rs", "berta"),
    ]  # fmt: skip
    assert {"expires_unix_ms", "expires_at", "fencing_token"} <= set(told["blocked_by"][0])


def test_the_spelling_does_not_matter_for_a_release(shell):
    one, _ = shell
    assert one.json("lock", "acquire", "path:./src//")["lock"]["resource"] == "path:src"
    assert one.run("lock", "renew", "path:src/").returncode == 0
    assert one.run("lock", "release", "path:./src").returncode == 0


def test_status_tells_what_conflicts(shell):
    one, other = shell
    one.run("lock", "acquire", "path:src", "--owner", "anna")
    assert one.json("lock", "status", "path:src")["conflicts"] == []
    seen = other.json("lock", "status", "path:src/api.rs")
    assert seen["locks"] == []
    assert [(found["resource"], found["owner"], found["conflicts_with"]) for found in seen["conflicts"]] == [
        ("path:src", "anna", "path:src/api.rs")
    ]
    assert (
        "Conflicts:\n  path:src/api.rs  overlaps  path:src  anna"
        in other.run("lock", "status", "path:src/api.rs").stdout
    )
    other.run("lock", "acquire", "path:docs")
    assert [lock["resource"] for lock in other.json("lock", "status", "--mine")["locks"]] == ["path:docs"]
    assert [lock["resource"] for lock in one.json("lock", "status", "--mine")["locks"]] == ["path:src"]
    assert len(one.json("lock", "status", "--prefix", "path:")["locks"]) == 2


def test_check_exits_by_its_decision(shell, fake):
    one, other = shell
    one.run("lock", "acquire", "path:src", "--owner", "anna")
    warned = other.run("lock", "check", "path:src/x", "path:docs")
    assert (warned.returncode, warned.stderr) == (0, "")
    assert "path:src/x overlaps path:src, held by anna" in warned.stdout
    assert one.run("lock", "check", "path:src/x").stdout == "Clear\n"
    fake.lock_policy = "require"
    assert one.run("lock", "check", "path:src/x").returncode == 0
    blocked = one.run("lock", "check", "path:docs")
    assert blocked.returncode == 4
    assert "octo lock acquire path:docs --ttl 30m" in blocked.stderr
    told = other.json("lock", "check", "path:src/x")
    assert (told["code"], told["decision"], told["missing"]) == ("blocked", "block", ["path:src/x"])
    assert told["conflicts"][0]["blocked_by"][0]["resource"] == "path:src"
