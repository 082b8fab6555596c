"""Alert rules in the dashboard: created, changed, tested, paused, deleted; who sees and who may change them."""

import re

import pytest

from locks.events.webhooks.encryption import decrypt
from locks.models import AlertRule, Delivery, Event, Transport, Webhook
from locks.services import webhooks
from locks.services.alerts import rules as service
from locks.services.alerts.rules import RuleValues
from locks.services.audit import Actor

pytestmark = pytest.mark.django_db

SLACK_URL = "https://hooks.slack.com/services/T000/B000/tell-no-one-1234"
FORM = {
    "name": "Deploys", "kinds": ["stuck", "force_released"], "starts_with": "deploy/", "min_minutes": "10",
    "token_days": "7", "reasons": ["overdue", "long_queue"], "transport": "slack", "destination": SLACK_URL,
    "quiet_from": "22:00", "quiet_until": "07:00", "quiet_zone": "Europe/Berlin", "quiet_days": ["1", "2"],
}  # fmt: skip


@pytest.fixture
def url(now_url) -> str:
    return now_url + "alerts"


@pytest.fixture
def hook(space) -> Webhook:
    values = RuleValues(
        name="On call", kinds=["stuck"], prefix="", transport=Transport.SLACK, destination=SLACK_URL
    )  # fmt: skip
    return service.create(actor=Actor.of_shell(), space=space, values=values)[1]


def test_an_admin_creates_a_rule_whose_url_is_a_secret(visit, alice, url) -> None:
    browser = visit(alice)
    empty = browser.get(url).content.decode()
    assert "No alert rules yet" in empty
    assert "E-mail is off: no mail server is configured" in empty
    reply = browser.post(f"{url}/new", FORM)
    rule = AlertRule.objects.select_related("webhook").get()
    assert reply["Location"] == f"{url}/{rule.webhook.public_id}"
    assert (rule.name, rule.webhook.kinds, rule.webhook.prefix) == ("Deploys", ["force_released", "stuck"], "deploy/")
    assert (rule.min_minutes, rule.reasons, rule.quiet_days) == (10, ["long_queue", "overdue"], [1, 2])
    assert decrypt(rule.webhook.secret) == SLACK_URL
    for path in (url, reply["Location"], f"{reply['Location']}/change"):
        shown = browser.get(path).content.decode()
        assert "tell-no-one" not in shown
        assert "https://hooks.slack.com/…1234" in shown
    shown = browser.get(url).content.decode()
    assert "Stuck for 10 min (Overdue, Long queue)" in shown
    assert "22:00 to 07:00 Europe/Berlin, Mon, Tue" in shown
    event = Event.objects.get(kind="alert_rule_created")
    assert (event.actor_name, event.detail["rule"], event.detail["url"]) == (
        "alice", "Deploys", "https://hooks.slack.com/…1234"
    )  # fmt: skip
    assert "alice created the alert rule Deploys" in browser.get(url.replace("alerts", "activity")).content.decode()


def test_a_rule_to_a_webhook_shows_its_secret_once(visit, alice, url) -> None:
    browser = visit(alice)
    filled_in = {**FORM, "transport": "webhook", "destination": "https://hooks.example/in"}
    reply = browser.post(f"{url}/new", filled_in)
    (secret,) = set(re.findall(r"whsec_[\w-]+", reply.content.decode()))
    made = Webhook.objects.get()
    assert decrypt(made.secret) == secret
    own = f"{url}/{made.public_id}"
    assert "whsec_" not in browser.get(own).content.decode()
    # Another URL keeps the secret, another transport replaces it.
    browser.post(f"{own}/change", {**filled_in, "destination": "https://hooks.example/2"})
    made.refresh_from_db()
    assert (made.url, decrypt(made.secret)) == ("https://hooks.example/2", secret)
    browser.post(f"{own}/change", FORM)
    made.refresh_from_db()
    assert decrypt(made.secret) == SLACK_URL


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"name": ""}, "Enter a name."),
        ({"kinds": []}, "Select at least one."),
        ({"destination": ""}, "Enter a URL or e-mail addresses."),
        ({"destination": "http://127.0.0.1/"}, "The address is private"),
        ({"transport": "email", "destination": "ops@example.com"}, "E-mail is not configured on this server."),
        ({"quiet_until": ""}, "Enter both times, or none."),
        ({"quiet_zone": "Mars/Base"}, "No such time zone."),
        ({"token_days": "15"}, "less than or equal to 14"),
    ],
)
def test_each_invalid_field_gets_an_error(visit, alice, url, wrong, error) -> None:
    reply = visit(alice).post(f"{url}/new", {**FORM, **wrong})
    assert reply.status_code == 422
    assert error in reply.content.decode()
    assert not AlertRule.objects.exists()


def test_with_a_mail_server_addresses_are_checked(visit, alice, url, settings) -> None:
    settings.EMAIL_HOST = "mail.example"
    browser = visit(alice)
    assert "E-mail is off" not in browser.get(url).content.decode()
    refused = browser.post(f"{url}/new", {**FORM, "transport": "email", "destination": "ops@example.com, nobody"})
    assert "nobody is not an e-mail address." in refused.content.decode()
    browser.post(f"{url}/new", {**FORM, "transport": "email", "destination": "ops@example.com, dev@example.com"})
    assert Webhook.objects.get().url == "ops@example.com, dev@example.com"


def test_it_is_changed_tested_paused_resumed_and_deleted(visit, alice, url, hook, now_url) -> None:
    browser = visit(alice)
    own, acts = f"{url}/{hook.public_id}", f"{now_url}webhooks/{hook.public_id}"
    assert browser.post(f"{own}/change", {**FORM, "destination": ""})["Location"] == own
    assert decrypt(Webhook.objects.get().secret) == SLACK_URL
    for act, says in [
        ("test", "Queued"),
        ("pause", "alerts that are still open are sent when it is resumed"),
        ("resume", "Unused"),
    ]:
        assert browser.post(f"{acts}/{act}")["Location"] == own
        assert says in browser.get(own).content.decode()
    assert Delivery.objects.get().kind == "test"
    # The URL of Slack is no signing secret.
    assert browser.get(f"{acts}/rotate").status_code == 404
    assert "Delete this alert rule" in browser.get(f"{acts}/delete").content.decode()
    assert browser.post(f"{acts}/delete")["Location"] == url
    assert browser.get(own).status_code == 404
    kinds = Event.objects.filter(kind__startswith="alert_rule").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == [
        "alert_rule_created", "alert_rule_changed", "alert_rule_tested", "alert_rule_paused", "alert_rule_resumed",
        "alert_rule_deleted",
    ]  # fmt: skip


def test_a_viewer_sees_rules_and_messages_without_actions(visit, victor, url, hook, now_url) -> None:
    webhooks.send_test(actor=Actor.of_shell(), webhook=hook).log.create(number=1, duration_ms=5, status=500)
    Delivery.objects.update(status="dead", finished_at="2026-01-01T00:00Z")
    browser = visit(victor)
    shown = browser.get(f"{url}/{hook.public_id}").content.decode()
    assert "On call" in shown
    assert "500" in shown
    for action in ("Replay", "<span>Test</span>", "Change…", "Delete…"):
        assert action not in shown
    assert "New rule" not in browser.get(url).content.decode()
    assert browser.post(f"{now_url}webhooks/{hook.public_id}/test").status_code == 403


@pytest.mark.parametrize(
    ("transport", "destination", "shown_to_viewers"),
    [
        (Transport.WEBHOOK, "https://hooks.example/in?key=tell-no-one", "https://hooks.example/in<"),
        (Transport.EMAIL, "ops@example.com, tell-no-one@example.com", "2 recipients<"),
    ],
)
def test_only_admins_see_the_whole_target_and_the_errors_of_attempts(
    visit, alice, olga, url, space, settings, transport, destination, shown_to_viewers
) -> None:
    settings.EMAIL_HOST = "mail.example"
    values = RuleValues(name="On call", kinds=["stuck"], prefix="", transport=transport, destination=destination)
    hook = service.create(actor=Actor.of_shell(), space=space, values=values)[1]
    delivery = webhooks.send_test(actor=Actor.of_shell(), webhook=hook)
    delivery.log.create(number=1, duration_ms=5, error="mailbox of secretary is full")
    own = f"{url}/{hook.public_id}"
    for path in (url, own):
        assert destination in visit(alice).get(path).content.decode()
        shown = visit(olga).get(path).content.decode()
        assert shown_to_viewers in shown
        assert "tell-no-one" not in shown
        assert "secretary" not in shown
    assert "secretary" in visit(alice).get(own).content.decode()


def test_a_rule_is_not_among_the_webhooks(visit, alice, hook, now_url, client, space) -> None:
    from tests.conftest import issue

    browser = visit(alice)
    assert "No webhooks yet" in browser.get(f"{now_url}webhooks").content.decode()
    assert browser.get(f"{now_url}webhooks/{hook.public_id}").status_code == 404
    token = issue(space, "hooks", "webhooks:manage")
    headers = {"Authorization": f"Bearer {token}"}
    assert client.get("/webhooks", headers=headers).json() == {"webhooks": []}
    assert client.get(f"/webhooks/{hook.public_id}", headers=headers).status_code == 404


def test_a_space_has_a_limited_number_of_rules(visit, alice, url, hook, monkeypatch) -> None:
    monkeypatch.setattr(service, "MAX_RULES_PER_SPACE", 1)
    reply = visit(alice).post(f"{url}/new", FORM)
    assert reply.status_code == 409
    assert "Delete one first." in reply.content.decode()
