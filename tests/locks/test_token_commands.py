"""Tokens from the server's own command line."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from locks import bearer
from locks.models import Event, Token

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    output = StringIO()
    call_command(*arguments, stdout=output)
    return output.getvalue()


def issue(*arguments: str) -> str:
    return run("issue_token", "--team", "blue", "--space", "main", *arguments)


def test_quiet_prints_only_the_token(space):
    printed = issue("--name", "ci", "--preset", "worker", "--quiet")
    assert bearer.parse(printed.removesuffix("\n")) is not None
    token = Token.objects.get(name="ci")
    assert (token.scopes, token.expires_at) == (["locks:read", "locks:write"], None)
    assert Event.objects.get(kind="token_issued").channel == "cli"


def test_without_quiet_it_says_what_the_token_may_do(space):
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
        run("issue_token", "--team", "green", "--name", "ci")
    with pytest.raises(CommandError, match="at least 1"):
        issue("--name", "other", "--days", "0")


def test_revoking_is_audited_and_happens_once(space):
    issue("--name", "ci", "--quiet")
    public_id = Token.objects.get(name="ci").public_id
    assert "is revoked" in run("revoke_token", public_id, "--reason", "leaked")
    assert Event.objects.get(kind="token_revoked").reason == "leaked"
    with pytest.raises(CommandError, match="revoked already"):
        run("revoke_token", public_id)
    with pytest.raises(CommandError, match="no token"):
        run("revoke_token", "nonsense")
