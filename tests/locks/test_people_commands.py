"""Management commands for users; each writes an audit event."""

import os
import subprocess
import sys
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from locks.models import BrowserSession, Event, User
from tests.servers import PROJECT_DIR

NEW = "a longer and quite unusual one"


def change_password(name: str, *typed: str) -> subprocess.CompletedProcess[str]:
    """Without a terminal the command reads the password from stdin."""
    return subprocess.run(
        [sys.executable, "manage.py", "changepassword", name], input="".join(f"{line}\n" for line in typed),
        cwd=PROJECT_DIR, env=dict(os.environ), start_new_session=True, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.usefixtures("committed")
def test_changepassword_writes_an_event_and_ends_every_session(client, alice):
    client.force_login(alice)
    assert client.get("/ui/account").status_code == 200
    done = change_password("ALICE@example.com", NEW, NEW)
    assert done.returncode == 0, done.stderr
    # The process uses the password hashes of a real server.
    assert User.objects.get(username="alice").password.startswith("pbkdf2_")
    event = Event.objects.get(kind="password_changed")
    assert (event.actor_kind, event.actor_name, event.channel) == ("system", "manage.py", "cli")
    assert event.detail == {"person": "alice", "sessions_ended": 1}
    assert not BrowserSession.objects.filter(user=alice).exists()
    assert client.get("/ui/account").status_code == 302
    refused = change_password("alice", *["12345"] * 6)
    assert refused.returncode != 0
    assert Event.objects.filter(kind="password_changed").count() == 1


@pytest.mark.usefixtures("committed")
def test_no_transaction_is_open_while_the_password_is_typed(alice, monkeypatch):
    held_open = []

    def types(prompt: str = "") -> str:
        held_open.append(connection.in_atomic_block)
        User.objects.filter(pk=alice.pk).update(first_name="Alice", is_active=False)
        return NEW

    monkeypatch.setattr("getpass.getpass", types)
    call_command("changepassword", "alice", stdout=StringIO())
    assert held_open == [False, False]
    alice.refresh_from_db()
    assert (alice.check_password(NEW), alice.first_name, alice.is_active) == (True, "Alice", False)


@pytest.mark.usefixtures("committed")
def test_no_transaction_is_open_while_a_superuser_is_typed_in(monkeypatch):
    held_open = []

    def types(answer: str):
        def typed(prompt: str = "") -> str:
            held_open.append(connection.in_atomic_block)
            return answer

        return typed

    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("getpass.getpass", types(NEW))
    monkeypatch.setattr("builtins.input", types("grace@example.com"))
    call_command("createsuperuser", username="grace", stdin=Terminal(), stdout=StringIO())
    assert held_open == [False, False, False]
    assert Event.objects.get(kind="person_added").detail["person"] == "grace"


@pytest.mark.django_db
def test_an_unknown_user_is_an_error():
    with pytest.raises(CommandError, match="no user mallory"):
        call_command("changepassword", "mallory")


@pytest.mark.django_db
def test_createsuperuser_writes_an_event():
    call_command("createsuperuser", "--no-input", username="grace", email="grace@example.com", stdout=StringIO())
    event = Event.objects.get(kind="person_added")
    assert (event.actor_name, event.channel) == ("manage.py", "cli")
    assert event.detail == {"through": "manage.py", "person": "grace", "superuser": True}
    # The receiver is disconnected after the command.
    User.objects.create_user("dave")
    assert Event.objects.filter(kind="person_added").count() == 1
