"""Tokens in the dashboard: issued and shown once, listed, rotated, revoked; refused; in the wrong state."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from locks import token_format
from locks.dashboard.tokens.description import describe_token
from locks.models import Event, Lock, Token
from locks.services import tokens
from locks.services.audit import Actor
from tests.conftest import issue
from tests.locks.dashboard.conftest import Worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def url(now_url):
    return now_url + "tokens"


def form(**changes):
    return {"name": "ci-deploy", "preset": "worker", "expiry": "90", **changes}


def plaintext_on(reply) -> str:
    """The token on the page that shows it."""
    (plaintext,) = set(token_format.PATTERN.findall(reply.content.decode()))
    return f"octo_{plaintext[0]}_{plaintext[1]}"


def in_dialog(name: str = "dialog") -> dict[str, str]:
    return {"HX-Request": "true", "HX-Target": name}


def test_an_admin_issues_a_token_that_works_and_is_never_shown_again(visit, alice, url, space):
    browser = visit(alice)
    reply = browser.post(url + "/new", form(prefixes="deploy/ ci/"))
    assert reply.status_code == 200
    assert "no-store" in reply["Cache-Control"]
    plaintext = plaintext_on(reply)
    assert Worker(plaintext).takes("deploy/api").owner == "ci-deploy"
    token = Token.objects.get()
    assert (token.name, token.scopes, token.prefixes) == (
        "ci-deploy",
        ["locks:read", "locks:write"],
        ["deploy/", "ci/"],
    )
    assert token.created_by == alice
    assert timedelta(days=89) < token.expires_at - timezone.now() < timedelta(days=91)
    event = Event.objects.get(kind="token_issued")
    assert (event.actor_name, event.channel, event.detail["name"]) == ("alice", "web", "ci-deploy")
    again = browser.post(url + "/new", form(prefixes="deploy/ ci/"))
    assert again.status_code == 422
    assert "has that name" in again.content.decode()
    assert plaintext not in browser.get(url).content.decode()


def test_the_page_shows_how_to_use_the_token(visit, alice, url):
    text = visit(alice).post(url + "/new", form(prefixes="deploy/")).content.decode()
    assert "export OCTO_URL=http://testserver" in text
    assert "/locks/deploy/main/acquire" in text
    assert "from octo import Client" in text
    assert "octo run deploy/main --ttl 60 -- ./deploy.sh" in text
    assert "Waiting for first use" in text
    observer = visit(alice).post(url + "/new", form(name="graphs", preset="observer")).content.decode()
    assert "$OCTO_URL/locks" in observer
    assert "octo run" not in observer


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "Enter a name"),
        ({"name": "a\x07b"}, "Visible characters only"),
        ({"name": "\u202elive"}, "Visible characters only"),
        ({"name": "\u200b"}, "Visible characters only"),
        ({"preset": "king"}, "not one of the available"),
        ({"preset": "custom"}, "Select at least one"),
        ({"preset": "custom", "scopes": ["locks:eat"]}, "not one of the available"),
        ({"prefixes": " ".join(f"p{n}/" for n in range(51))}, "At most 50"),
        ({"prefixes": "x" * 257}, "at most 256"),
        ({"expiry": "date"}, "Choose a date"),
        ({"expiry": "date", "expires_on": "2020-01-01"}, "today or a later day"),
        ({"expiry": "date", "expires_on": "9999-12-31"}, "within ten years"),
        ({"expiry": "date", "expires_on": "soon"}, "Enter a date like"),
        ({"expiry": "never"}, "does not allow"),
    ],
)
def test_what_cannot_be_issued(visit, alice, url, changes, message):
    reply = visit(alice).post(url + "/new", form(**changes))
    assert reply.status_code == 422
    assert message in reply.content.decode()
    assert not Token.objects.exists()


def test_a_date_may_be_today_and_almost_ten_years_away(visit, alice, url):
    today = timezone.now().date()
    for name, days, status in (("past", -1, 422), ("today", 0, 200), ("far", 3649, 200), ("too far", 3650, 422)):
        filled_in = form(name=name, expiry="date", expires_on=(today + timedelta(days=days)).isoformat())
        assert visit(alice).post(url + "/new", filled_in).status_code == status, name


def test_never_only_where_the_space_allows_it_and_with_a_warning(visit, alice, url, space):
    assert 'value="never"' not in visit(alice).get(url + "/new").content.decode()
    space.allow_non_expiring_tokens = True
    space.save()
    assert 'value="never"' in visit(alice).get(url + "/new").content.decode()
    warned = visit(alice).post(url + "/new/preview", form(expiry="never"), headers=in_dialog("preview"))
    assert "works wherever it was copied to" in warned.content.decode()
    assert visit(alice).post(url + "/new", form(expiry="never")).status_code == 200
    assert Token.objects.get().expires_at is None


def test_no_service_call_issues_a_token_that_never_expires_against_the_rule(space, alice):
    for actor in (Actor.of_user(alice), Actor.of_shell()):
        with pytest.raises(tokens.MustExpire):
            tokens.issue(actor=actor, space=space, name="x", scopes=["locks:read"], expires_at=tokens.Expiry.NEVER)


def test_the_successor_of_a_token_that_never_expires_does_expire_if_the_rule_has_changed(space, worker_token):
    Token.objects.update(expires_at=None)
    _, successor = tokens.rotate(actor=Actor.of_shell(), token=Token.objects.get(), overlap=timedelta(0))
    assert timedelta(days=89) < successor.expires_at - timezone.now() <= timedelta(days=90)


def test_a_date_lasts_to_the_end_of_its_day(visit, alice, url):
    day = (timezone.now() + timedelta(days=10)).date()
    visit(alice).post(url + "/new", form(expiry="date", expires_on=day.isoformat()))
    assert Token.objects.get().expires_at == datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)


def test_the_preview_follows_the_form(visit, alice, url, worker):
    worker.takes("deploy/api")
    worker.takes("cron/backup")
    browser = visit(alice)

    def preview(**changes) -> str:
        reply = browser.post(url + "/new/preview", form(**changes), headers=in_dialog("preview"))
        assert reply.status_code == 200
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", reply.content.decode()))

    assert "ci-deploy will be able to claim, renew and release locks" in preview()
    assert "for all locks" in preview()
    assert "2 locks are held now" in preview()
    assert "only for lock names that start with deploy/" in preview(prefixes="deploy/")
    assert "match 1 of the locks held now" in preview(prefixes="deploy/")
    assert "cannot claim locks, force-release locks, or issue tokens." in preview(preset="observer")
    assert "has no permissions yet" in preview(preset="custom")
    assert not Token.objects.filter(name="ci-deploy").exists()


def test_without_javascript_the_form_comes_back_with_its_preview(visit, alice, url):
    text = visit(alice).post(url + "/new/preview", form(preset="observer", name="")).content.decode()
    assert "see locks and their holders, and read the history" in text
    assert re.search(r'value="observer"[^>]*\schecked', text)


def test_every_scope_has_a_description():
    description = describe_token(scopes=["tokens:manage", "webhooks:manage"], prefixes=[], expires_at=None)
    assert description.abilities == "manage webhooks, and issue and revoke tokens, with any scope"


def test_the_list_shows_use_expiry_and_leases(visit, victor, url, space, worker, worker_token):
    worker.takes("a")
    worker.takes("b")
    now = timezone.now()
    for name, days in {"fine": 60, "soon": 10, "very-soon": 2, "gone": -1}.items():
        issue(space, name, "locks:read", prefixes=["x/"], expires_at=now + timedelta(days=days))
    Token.objects.filter(name="worker").update(
        last_used_at=now, last_used_address="192.0.2.7", last_used_agent="octo/1.0"
    )
    text = visit(victor).get(url).content.decode()
    rows = {re.search(r'token-name">([^<]+)', row)[1]: row for row in text.split("<tr")[2:]}
    assert set(rows) == {"worker", "fine", "soon", "very-soon", "gone"}
    assert "192.0.2.7" in rows["worker"]
    assert "octo/1.0" in rows["worker"]
    assert "<b>2</b>" in rows["worker"]
    assert "mark-" not in rows["fine"]
    assert "mark-soon" in rows["soon"]
    assert "mark-bad" in rows["very-soon"]
    assert "Expired" in rows["gone"]
    assert "Revoke" not in text
    assert worker_token not in text


def test_search_and_history(visit, alice, url, space):
    issue(space, "deploy", "locks:read")
    issue(space, "backup", "locks:read")
    browser = visit(alice)
    tokens.revoke(actor=Actor.of_user(alice), token=Token.objects.get(name="backup"))
    assert "backup" not in browser.get(url).content.decode()
    past = browser.get(url + "?show=history").content.decode()
    assert "backup" in past
    assert "Revoked" in past
    assert "deploy" not in browser.get(url + "?show=history&q=de%").content.decode().split("<table")[-1]
    assert "No token matches" in browser.get(url + "?q=nothing").content.decode()


def test_rotating_shows_the_new_one_once_and_keeps_the_old_for_the_overlap(visit, alice, url, worker, worker_token):
    held = worker.takes("job")
    old = Token.objects.get()
    target = f"{url}/{old.public_id}/rotate"
    assert "1</b> live lease" in visit(alice).get(target, headers=in_dialog()).content.decode()
    reply = visit(alice).post(target, {"overlap": 3_600, "lasts": "30"})
    new = plaintext_on(reply)
    assert "works until" in reply.content.decode()
    assert Worker(new).renews("job", held.lease_id) == "renewed"
    assert worker.renews("job", held.lease_id) == "renewed"
    successor = Token.objects.get(rotated_at=None)
    assert timedelta(days=29) < successor.expires_at - timezone.now() < timedelta(days=31)
    assert Event.objects.get(kind="token_rotated").detail["overlap_seconds"] == 3_600
    again = visit(alice).post(target, {"overlap": 0})
    assert again.status_code == 409
    assert "rotated already" in again.content.decode()
    assert "Rotated" in visit(alice).get(url).content.decode()


def test_rotating_without_overlap_ends_the_old_one_at_once_and_history_keeps_it(
    visit, alice, url, worker, worker_token
):
    held = worker.takes("job")
    public_id = Token.objects.get().public_id
    visit(alice).post(f"{url}/{public_id}/rotate", {"overlap": 0})
    assert worker.renews("job", held.lease_id) == "unauthenticated"
    assert public_id in visit(alice).get(url + "?show=history").content.decode()
    assert visit(alice).post(f"{url}/{public_id}/rotate", {"overlap": 7}).status_code == 409


def test_revoking_lets_leases_expire_or_releases_them(visit, alice, url, worker, worker_token, space):
    worker.takes("a")
    worker.takes("b")
    other = issue(space, "other", "locks:read", "locks:write")
    Worker(other).takes("c")
    target = f"{url}/{Token.objects.get(name='worker').public_id}/revoke"
    assert "2 live leases" in visit(alice).get(target).content.decode()
    reply = visit(alice).post(target, {"leases": "release", "reason": "it leaked"}, headers=in_dialog())
    assert "2 leases were released" in reply.content.decode()
    released = Event.objects.filter(kind="force_released")
    assert {event.lock_name for event in released} == {"a", "b"}
    assert {(event.actor_name, event.reason) for event in released} == {
        ("alice", "token worker was revoked: it leaked")
    }
    assert Event.objects.get(kind="token_revoked").reason == "it leaked"
    assert [lock.name for lock in Lock.objects.filter(lease_id__isnull=False)] == ["c"]
    again = visit(alice).post(target, {"leases": "release"})
    assert again.status_code == 409
    assert "already revoked" in again.content.decode()
    target = f"{url}/{other.split('_')[1]}/revoke"
    assert "1 lease will expire" in visit(alice).post(target, {"leases": "expire"}).content.decode()
    assert Lock.objects.filter(lease_id__isnull=False).count() == 1


def test_leases_of_a_replaced_token_are_listed_with_its_successor(visit, alice, url, worker):
    worker.takes("job", ttl_seconds=600)
    tokens.rotate(actor=Actor.of_shell(), token=Token.objects.get(), overlap=timedelta(0))
    (row,) = visit(alice).get(url).context["results"].rows
    assert (row.name, row.live_leases) == ("worker", 1)
    assert "holds <b>1 live lease</b>" in visit(alice).get(f"{url}/{row.public_id}/revoke").content.decode()


def test_the_first_use_is_announced(visit, alice, url, space):
    public_id = issue(space, "new", "locks:read").split("_")[1]
    target = f"{url}/{public_id}/first-use"
    waiting = visit(alice).get(target).content.decode()
    assert "every 2s" in waiting
    Token.objects.update(last_used_at=timezone.now(), last_used_address="192.0.2.7", last_used_agent="curl/8")
    used = " ".join(visit(alice).get(target).content.decode().split())
    assert "First used from 192.0.2.7 by curl/8" in used
    assert "every 2s" not in used


@pytest.fixture
def rotated(worker, worker_token, space):
    """The old secret, which took a lease, and the token that replaced it an hour before the overlap ends."""
    Worker(worker_token).takes("job", ttl_seconds=600)
    old = Token.objects.get(space=space)
    _, successor = tokens.rotate(actor=Actor.of_shell(), token=old, overlap=timedelta(hours=1))
    return old, successor


def test_revoking_during_the_overlap_revokes_the_previous_secret_too(rotated, visit, alice, url):
    old, successor = rotated
    target = f"{url}/{successor.public_id}/revoke"
    shown = visit(alice).get(target)
    assert shown.context["form"]["with_predecessors"].initial is True
    assert f"octo_{old.public_id}_…" in shown.content.decode()
    reply = visit(alice).post(target, {"leases": "release", "with_predecessors": "on"})
    assert "1 lease was released" in " ".join(reply.content.decode().split())
    assert not Token.objects.filter(revoked_at=None).exists()
    assert Event.objects.filter(kind="token_revoked").count() == 2
    assert Lock.objects.get().lease_id is None


def test_the_previous_secret_can_stay_and_the_answer_says_that_it_works(rotated, visit, alice, url):
    old, successor = rotated
    reply = visit(alice).post(f"{url}/{successor.public_id}/revoke", {"leases": "expire"})
    assert list(Token.objects.filter(revoked_at=None)) == [old]
    assert f"octo_{old.public_id}_…</span>, works until" in reply.content.decode()


def test_without_an_overlap_there_is_no_previous_secret_to_revoke(visit, alice, url, worker_token):
    shown = visit(alice).get(f"{url}/{Token.objects.get().public_id}/revoke")
    assert "with_predecessors" not in shown.context["form"].fields


def test_a_token_that_a_person_rotated_is_theirs(visit, alice, url, worker_token):
    token = Token.objects.get()
    assert token.created_by is None
    visit(alice).post(f"{url}/{token.public_id}/rotate", {"overlap": 0})
    assert Token.objects.get(rotated_at=None).created_by == alice
    assert "by alice" in visit(alice).get(url).content.decode()
