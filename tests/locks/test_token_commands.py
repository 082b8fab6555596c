"""Management commands for tokens."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from locks import token_format
from locks.engine.execution import run
from locks.engine.operations import acquire
from locks.engine.requests import Acquire
from locks.models import Event, Lock, Space, Token
from locks.token_format import parse

pytestmark = pytest.mark.django_db


def manage(*arguments: str) -> str:
    output = StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()


def issue(*arguments: str) -> str:
    return manage("issue_token", "--team", "blue", "--space", "main", *arguments)


def test_quiet_prints_only_the_token(space):
    printed = issue("--name", "ci", "--preset", "worker", "--quiet")
    assert token_format.parse(printed.removesuffix("\n")) is not None
    token = Token.objects.get(name="ci")
    assert token.scopes == ["locks:read", "locks:write"]
    assert timedelta(days=89) < token.expires_at - timezone.now() <= timedelta(days=90)
    assert Event.objects.get(kind="token_issued").channel == "cli"


def test_never_needs_the_permission_of_the_space_and_prints_a_warning(space):
    with pytest.raises(CommandError, match=r"blue/main does not allow tokens that never expire\. Give --days"):
        issue("--name", "ci", "--never")
    assert not Token.objects.exists()
    Space.objects.update(allow_non_expiring_tokens=True)
    printed, warned = StringIO(), StringIO()
    arguments = ("--team", "blue", "--name", "ci", "--never", "--quiet")
    call_command("issue_token", *arguments, stdout=printed, stderr=warned)
    assert parse(printed.getvalue().removesuffix("\n")) is not None, "scripts read the token from stdout"
    assert "never expires" in warned.getvalue()
    assert Token.objects.get().expires_at is None


def test_without_quiet_it_prints_the_scopes(space):
    printed = issue("--name", "ci", "--scope", "locks:read", "--prefix", "ci/", "--days", "30")
    assert "locks:read." in printed
    assert "shown this once" in printed
    token = Token.objects.get(name="ci")
    assert token.prefixes == ["ci/"]
    assert token.expires_at is not None


def test_a_taken_name_and_an_unknown_space_are_explained(space):
    issue("--name", "ci")
    with pytest.raises(CommandError, match="already"):
        issue("--name", "ci")
    with pytest.raises(CommandError, match="There are: blue/main"):
        manage("issue_token", "--team", "green", "--name", "ci")
    with pytest.raises(CommandError, match="at least 1"):
        issue("--name", "other", "--days", "0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--name", ""), "--name must be visible text"),
        (("--name", "x" * 129), "--name must be visible text of at most 128"),
        (("--name", "a\x1b[31mb"), "--name must be visible text"),
        (("--name", "ci", "--prefix", ""), "--prefix must be visible text"),
        (("--name", "ci", "--prefix", "x" * 257), "--prefix must be visible text of at most 256"),
        (("--name", "ci", "--prefix", "two words"), "without blanks"),
    ],
)
def test_names_and_prefixes_follow_the_rules_of_the_api(space, arguments, message):
    with pytest.raises(CommandError, match=message):
        issue(*arguments)
    assert not Token.objects.exists()


def test_archived_spaces_are_not_listed(space):
    Space.objects.create(team=space.team, slug="past", name="Past", archived_at=timezone.now())
    with pytest.raises(CommandError, match=r"There are: blue/main\."):
        manage("issue_token", "--team", "blue", "--space", "past", "--name", "ci")


def test_revoking_is_audited_and_happens_once(space):
    issue("--name", "ci", "--quiet")
    public_id = Token.objects.get(name="ci").public_id
    assert "is revoked" in manage("revoke_token", public_id, "--reason", "leaked")
    assert Event.objects.get(kind="token_revoked").reason == "leaked"
    with pytest.raises(CommandError, match="at most 500"):
        manage("revoke_token", public_id, "--reason", "x" * 501)
    with pytest.raises(CommandError, match="revoked already"):
        manage("revoke_token", public_id)
    with pytest.raises(CommandError, match="no token"):
        manage("revoke_token", "nonsense")


@pytest.mark.parametrize(
    ("arguments", "message", "left"), [((), "left to expire: 2", 2), (("--release",), "released: 2", 0)]
)
def test_revoking_can_release_the_leases(space, worker_token, arguments, message, left):
    held = parse(worker_token)
    asked = [Acquire(digest=held.digest.hex(), name=name, ttl_seconds=600) for name in ("a", "b")]
    run(acquire(asked))
    # A lock with waiters is released by another statement.
    Lock.objects.filter(name="b").update(last_waiter_id=1)
    printed = manage("revoke_token", held.public_id, *arguments)
    assert message in printed
    assert Lock.objects.filter(lease_id__isnull=False).count() == left
    for event in Event.objects.filter(kind="force_released"):
        assert (event.actor_kind, event.actor_id, event.actor_name) == ("system", None, "manage.py")
        assert event.channel == "cli"
