"""The account page: profile, password and sessions."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from locks.models import BrowserSession, Event
from locks.services import mfa
from locks.services.audit import Actor
from tests.conftest import PASSWORD
from tests.locks.dashboard.query_counts import QUERY_COUNTS

pytestmark = pytest.mark.django_db

URL = "/ui/account"
NEW = "a longer and quite unusual one"


def signed_in(name: str, **headers: str) -> Client:
    """As people do it, so that the session knows from where."""
    browser = Client(headers=headers)
    assert browser.post("/ui/sign-in", {"name": name, "password": PASSWORD}).status_code == 302
    return browser


def test_it_shows_the_signed_in_user(client, visit, victor, bob):
    assert client.get(URL).status_code == 302
    text = visit(victor).get(URL).content.decode()
    assert "victor@example.com" in text
    assert "bob@example.com" not in text


def test_it_asks_a_fixed_number_of_queries(visit, victor, settings, django_assert_num_queries):
    browser, _another = visit(victor), visit(victor)
    with django_assert_num_queries(QUERY_COUNTS["account"]):
        browser.get(URL)
    settings.ONE_TIME_CODES = settings.PASSKEYS = True
    settings.MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
    settings.PROVIDERS = {"github": "GitHub", "openid": "SSO"}
    mfa.add_totp(actor=Actor.of_shell(), user=victor, secret="A" * 32, counter=0)
    with django_assert_num_queries(QUERY_COUNTS["account, every way in"]):
        browser.get(URL)


def test_the_profile_is_changed_and_the_audit_log_names_the_fields_only(visit, victor):
    wanted = {"first_name": "Victor", "last_name": "Vale", "email": "vic@example.com"}
    assert visit(victor).post(f"{URL}/profile", wanted)["Location"] == URL
    victor.refresh_from_db()
    assert (victor.get_full_name(), victor.email) == ("Victor Vale", "vic@example.com")
    assert Event.objects.get(kind="profile_changed").detail == {"changed": ["first_name", "last_name", "email"]}


def test_the_address_of_another_account_is_refused_in_any_case(visit, victor, bob):
    reply = visit(victor).post(f"{URL}/profile", {"email": "BOB@example.com"})
    assert (reply.status_code, "Another account has this address" in reply.content.decode()) == (422, True)


def test_the_profile_requires_reauthentication(later, victor):
    reply = later(victor).post(f"{URL}/profile", {"first_name": "Vic", "email": victor.email})
    assert (reply.status_code, "Confirm it is you" in reply.content.decode()) == (403, True)


def test_a_changed_password_ends_every_other_session(victor):
    here, elsewhere = signed_in("victor"), signed_in("victor")
    typed = {"current": PASSWORD, "password": NEW, "again": NEW}
    assert here.post(f"{URL}/password", typed)["Location"] == URL
    assert here.get(URL).status_code == 200
    assert elsewhere.get(URL).status_code == 302
    assert Event.objects.get(kind="password_changed").detail == {"first": False, "sessions_ended": 1}
    assert BrowserSession.objects.filter(user=victor).count() == 1
    assert Client().post("/ui/sign-in", {"name": "victor", "password": NEW}).status_code == 302


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ({"current": "wrong", "password": NEW, "again": NEW}, "Incorrect password"),
        ({"current": PASSWORD, "password": NEW, "again": NEW + "r"}, "passwords differ"),
        ({"current": PASSWORD, "password": "short", "again": "short"}, "too short"),
        ({"current": PASSWORD, "password": "password1234", "again": "password1234"}, "too common"),
        ({"current": PASSWORD, "password": "victor@example.com", "again": "victor@example.com"}, "too similar"),
    ],
)
def test_an_unacceptable_password_is_refused(visit, victor, typed, error):
    reply = visit(victor).post(f"{URL}/password", typed)
    text = reply.content.decode()
    assert (reply.status_code, error in text) == (422, True)
    assert NEW not in text
    assert victor.check_password(PASSWORD)


def test_guessing_the_current_password_is_throttled(visit, victor):
    browser = visit(victor)
    typed = {"current": "wrong", "password": NEW, "again": NEW}
    replies = [browser.post(f"{URL}/password", typed).content.decode() for _ in range(6)]
    assert ["Too many attempts" in text for text in replies] == [False] * 5 + [True]


def test_an_account_without_a_password_sets_one_after_reauthentication_only(visit, later, victor):
    victor.set_unusable_password()
    victor.save()
    assert later(victor).post(f"{URL}/password", {"password": NEW, "again": NEW}).status_code == 403
    assert visit(victor).post(f"{URL}/password", {"password": NEW, "again": NEW}).status_code == 302
    assert Event.objects.get(kind="password_changed").detail["first"] is True


def test_sessions_show_browser_and_address(victor):
    linux = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    signed_in("victor", **{"user-agent": linux})
    text = signed_in("victor", **{"user-agent": "curl/8.1"}).get(URL).content.decode()
    assert "Firefox on Linux" in text
    assert "127.0.0.1" in text
    assert text.count("this device") == 1


def test_one_session_is_ended_at_once_and_the_others_stay(victor):
    here, elsewhere, third = signed_in("victor"), signed_in("victor"), signed_in("victor")
    there = BrowserSession.objects.get(session_key=_key(elsewhere))
    assert here.post(f"{URL}/sessions/{there.public_id}")["Location"] == URL
    assert (elsewhere.get(URL).status_code, third.get(URL).status_code) == (302, 200)
    assert Event.objects.get(kind="sessions_revoked").detail == {"sessions": 1, "address": "127.0.0.1"}
    assert here.post(f"{URL}/sessions/{there.public_id}").status_code == 404


def test_a_session_of_another_user_is_not_found(victor, bob):
    theirs = signed_in("bob")
    found = BrowserSession.objects.get(user=bob)
    assert signed_in("victor").post(f"{URL}/sessions/{found.public_id}").status_code == 404
    assert theirs.get(URL).status_code == 200


def test_all_others_and_everywhere(victor, bob):
    here, elsewhere, another = signed_in("victor"), signed_in("victor"), signed_in("bob")
    here.post(f"{URL}/sessions/others")
    assert (here.get(URL).status_code, elsewhere.get(URL).status_code) == (200, 302)
    elsewhere = signed_in("victor")
    assert here.post(f"{URL}/sign-out-everywhere")["Location"] == "/ui/sign-in"
    assert [browser.get(URL).status_code for browser in (here, elsewhere, another)] == [302, 302, 200]
    assert Event.objects.filter(kind="sessions_revoked").count() == 2


def test_the_table_stores_only_a_digest_of_the_cookie(victor):
    browser = signed_in("victor")
    cookie = browser.cookies["sessionid"].value
    assert not BrowserSession.objects.filter(session_key=cookie).exists()
    assert Client(headers={"cookie": f"sessionid={_key(browser)}"}).get(URL).status_code == 302


def test_last_seen_is_written_once_a_minute(victor, django_assert_num_queries):
    browser = signed_in("victor")
    browser.get(URL)

    def writes() -> int:
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(connection) as asked:
            browser.get(URL)
        return sum(query["sql"].startswith("UPDATE") for query in asked)

    assert writes() == 0
    BrowserSession.objects.update(seen_at=timezone.now() - timedelta(seconds=61))
    assert [writes(), writes()] == [1, 0]
    assert timezone.now() - BrowserSession.objects.get().seen_at < timedelta(seconds=30)


@pytest.mark.parametrize("path", ["profile", "password", "sessions/others", "sign-out-everywhere"])
def test_every_change_takes_a_post_with_its_token(visit, victor, path):
    assert visit(victor).get(f"{URL}/{path}").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(victor)
    assert strict.post(f"{URL}/{path}").status_code == 403


def _key(browser: Client) -> str:
    from locks.browser_sessions import digest

    return digest(browser.cookies["sessionid"].value)
