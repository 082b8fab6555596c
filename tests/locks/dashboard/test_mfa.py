"""One-time codes and recovery codes: set up, required at sign-in, used once, removed."""

import re
import time

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.test import Client

from locks.models import BrowserSession, Event, Membership, Role, User
from tests.conftest import PASSWORD

pytestmark = pytest.mark.django_db

ACCOUNT = "/ui/account"
STEP = "/ui/sign-in/second-step"


@pytest.fixture
def totp_enabled(settings):
    settings.ONE_TIME_CODES = True
    settings.MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]


def code(secret: str, *, steps: int = 0) -> str:
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps))


def set_up(browser: Client, *, seconds_ago: int = 30) -> tuple[str, list[str]]:
    """The secret, and the recovery codes that were shown. By default so long ago that there is a new code."""
    secret = re.search(r'class="qr-secret"[^>]*>(\w+)<', browser.get(f"{ACCOUNT}/codes").content.decode())[1]
    done = browser.post(f"{ACCOUNT}/codes", {"code": code(secret)})
    assert done.status_code == 200
    factor = Authenticator.objects.get(type="totp")
    factor.data["last_counter"] -= seconds_ago // 30
    factor.save()
    return secret, [each.replace(" ", "") for each in re.findall(r"<li><code>([\d ]+)</code>", done.content.decode())]


def begin(name: str) -> Client:
    """In a new browser, up to the second step."""
    browser = Client()
    reply = browser.post("/ui/sign-in", {"name": name, "password": PASSWORD, "next": "/ui/account"})
    assert (reply.status_code, reply["Location"]) == (302, STEP)
    return browser


def test_off_until_configured(visit, victor):
    browser = visit(victor)
    for path in ("account/codes", "account/passkeys", "sign-in/passkey", "sign-in/second-step", "confirm/passkey"):
        assert browser.get(f"/ui/{path}").status_code == 404, path
    for path in ("account/recovery-codes", "sign-in/github", "sign-in/openid", "account/connect/github"):
        assert browser.post(f"/ui/{path}").status_code == 404, path
    for path in ("sign-in/github/callback", "sign-in/openid/callback", "sign-in/second-step/passkey"):
        assert browser.get(f"/ui/{path}?code=x&state=y").status_code == 404, path
    text = browser.get(ACCOUNT).content.decode() + Client().get("/ui/sign-in").content.decode()
    assert not re.search("Second factors|Connected|passkey", text)


@pytest.mark.parametrize("credential", ['{"response": {"userHandle": "MQ"}}', "{}", "nonsense", ""])
def test_a_visitor_who_asks_for_a_passkey_challenge_writes_no_row(client, settings, credential):
    settings.PASSKEYS = True
    challenges = {client.get("/ui/sign-in/passkey").json()["publicKey"]["challenge"] for _ in range(3)}
    assert len(challenges) == 3
    refused = client.post("/ui/sign-in/passkey", {"credential": credential})
    assert refused.status_code == 422
    assert "sessionid" not in client.cookies
    assert not BrowserSession.objects.exists()


@pytest.mark.parametrize("path", ["/accounts/signup/", "/accounts/login/", "/ui/signup"])
def test_no_other_page_of_allauth_is_routed(client, path):
    assert client.get(path).status_code == 404


def test_a_code_is_required_at_the_next_sign_in(totp_enabled, visit, victor):
    secret, shown = set_up(visit(victor))
    assert len(shown) == 10
    event = Event.objects.get(kind="second_factor_added")
    assert (event.actor_id, event.detail) == (victor.pk, {"kind": "codes"})
    browser = begin("victor")
    assert browser.get(ACCOUNT).status_code == 302
    reply = browser.post(STEP, {"code": code(secret)})
    assert (reply.status_code, reply["Location"]) == (302, ACCOUNT)
    assert browser.get(ACCOUNT).status_code == 200
    assert Event.objects.filter(kind="signed_in").latest("id").detail == {"methods": ["password", "totp"]}


def test_a_code_works_once_whichever_process_it_comes_to(totp_enabled, visit, victor):
    secret, _ = set_up(visit(victor))
    used = code(secret)
    assert begin("victor").post(STEP, {"code": used}).status_code == 302
    assert begin("victor").post(STEP, {"code": used}).status_code == 422


def test_a_recovery_code_works_once(totp_enabled, visit, victor):
    _, shown = set_up(visit(victor))
    first = f"{shown[0][:5]} {shown[0][5:]}"
    assert begin("victor").post(STEP, {"code": first}).status_code == 302
    assert begin("victor").post(STEP, {"code": first}).status_code == 422
    assert "9 left" in visit(victor).get(ACCOUNT).content.decode()
    assert Event.objects.filter(kind="signed_in").latest("id").detail["methods"] == ["password", "recovery_codes"]


def test_new_recovery_codes_end_the_old_ones(totp_enabled, visit, victor):
    browser = visit(victor)
    _, old = set_up(browser)
    assert browser.post(f"{ACCOUNT}/recovery-codes").status_code == 200
    assert begin("victor").post(STEP, {"code": old[1]}).status_code == 422
    assert Event.objects.filter(kind="recovery_codes_made").count() == 1


def test_guessing_codes_is_throttled(totp_enabled, visit, victor):
    set_up(visit(victor))
    browser = begin("victor")
    assert [browser.post(STEP, {"code": "000000x"}).status_code for _ in range(11)][-1] == 429
    assert Event.objects.get(kind="sign_in_slowed").detail["gate"] == "code"


def test_the_second_step_follows_the_first(totp_enabled, client, victor):
    assert client.get(STEP)["Location"] == "/ui/sign-in"
    assert client.post(STEP, {"code": "123456"})["Location"] == "/ui/sign-in"


def test_secrets_are_not_readable_in_the_table(totp_enabled, visit, victor):
    secret, shown = set_up(visit(victor))
    kept = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in kept
    assert not any(each in kept for each in shown)
    assert secret not in str(list(Event.objects.values()))


def test_the_code_of_the_set_up_does_not_sign_in(totp_enabled, visit, victor):
    secret, _ = set_up(visit(victor), seconds_ago=0)
    factor = Authenticator.objects.get(type="totp")
    used = format_hotp_value(hotp_value(secret, factor.data["last_counter"]))
    assert begin("victor").post(STEP, {"code": used}).status_code == 422


def test_codes_work_after_the_secret_key_was_rotated(totp_enabled, visit, victor, settings):
    secret, recovery_codes = set_up(visit(victor))
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "k" * 50
    assert begin("victor").post(STEP, {"code": code(secret)}).status_code == 302
    assert begin("victor").post(STEP, {"code": recovery_codes[0]}).status_code == 302


def test_a_wrong_code_sets_up_nothing(totp_enabled, visit, victor):
    browser = visit(victor)
    browser.get(f"{ACCOUNT}/codes")
    assert browser.post(f"{ACCOUNT}/codes", {"code": "12345x"}).status_code == 422
    assert not Authenticator.objects.exists()


def test_a_removed_factor_is_no_longer_required(totp_enabled, visit, victor, bob):
    browser = visit(victor)
    set_up(browser)
    factor = Authenticator.objects.get(type="totp")
    assert visit(bob).post(f"{ACCOUNT}/second-factors/{factor.pk}").status_code == 404
    assert browser.post(f"{ACCOUNT}/second-factors/{factor.pk}")["Location"] == ACCOUNT
    assert not Authenticator.objects.exists()
    assert Event.objects.get(kind="second_factor_removed").detail == {"kind": "codes"}
    assert Client().post("/ui/sign-in", {"name": "victor", "password": PASSWORD})["Location"] == "/ui/"


def test_changing_factors_requires_reauthentication(totp_enabled, later, victor):
    for path in ("codes", "recovery-codes", "second-factors/1"):
        reply = later(victor).post(f"{ACCOUNT}/{path}")
        assert (reply.status_code, "Confirm it is you" in reply.content.decode()) == (403, True)


def test_an_account_without_a_password_confirms_with_a_code(totp_enabled, visit, later, victor):
    secret, _ = set_up(visit(victor))
    victor.set_unusable_password()
    victor.save()
    browser = later(victor)
    asked = browser.get(f"{ACCOUNT}/codes").content.decode()
    assert "Code from your authenticator app" in asked
    profile = {"first_name": "Vic", "email": victor.email}
    assert browser.post(f"{ACCOUNT}/profile", {**profile, "confirm_code": "nonsense"}).status_code == 403
    assert browser.post(f"{ACCOUNT}/profile", {**profile, "confirm_code": code(secret)}).status_code == 302
    assert User.objects.get(pk=victor.pk).first_name == "Vic"
    assert Event.objects.get(kind="confirmed").detail == {"method": "code"}


class TestWhereAdminsNeedOne:
    @pytest.fixture(autouse=True)
    def _required(self, totp_enabled, settings):
        settings.SECOND_FACTOR_FOR_ADMINS = True

    def test_until_then_an_admin_has_the_rights_of_a_viewer(self, visit, worker, alice, now_url):
        worker.takes("job")
        browser = visit(alice)
        text = browser.get(now_url).content.decode()
        assert "Set one up" in text
        assert browser.get(now_url + "locks/job/force-release").status_code == 403
        set_up(browser)
        assert "Set one up" not in browser.get(now_url).content.decode()
        assert browser.get(now_url + "locks/job/force-release").status_code == 200

    def test_other_roles_are_not_affected(self, visit, worker, olga, now_url):
        worker.takes("job")
        text = visit(olga).get(now_url).content.decode()
        assert "Set one up" not in text
        assert visit(olga).get(now_url + "locks/job/force-release").status_code == 200

    def test_a_superuser_is_led_to_set_one_up(self, visit, root, now_url):
        browser = visit(root)
        assert browser.get("/admin/", follow=True).redirect_chain[-1][0] == ACCOUNT
        assert "Set one up" in browser.get(now_url).content.decode()
        set_up(browser)
        assert browser.get("/admin/").status_code == 200

    def test_it_costs_no_query(self, worker, visit, alice, now_url, django_assert_num_queries):
        from locks.system_state.counters import latest
        from tests.locks.dashboard.query_counts import QUERY_COUNTS

        worker.takes("job")
        latest.clear()
        browser = visit(alice)
        with django_assert_num_queries(QUERY_COUNTS["now"]):
            browser.get(now_url)

    def test_an_admin_of_one_team_is_still_an_operator_of_another(self, visit, red, red_space, alice):
        Membership.objects.create(team=red, user=alice, role=Role.OPERATOR)
        assert "Set one up" not in visit(alice).get("/ui/red/main/").content.decode()
