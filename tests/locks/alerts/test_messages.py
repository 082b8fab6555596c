"""Messages as Slack, Teams, e-mail and webhooks get them, and that evaluations at the same time send each once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import time, timedelta
from ipaddress import ip_network
from threading import Barrier

import pytest
from django.db import connection

from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import force_release
from locks.events.webhooks.delivery_pool import deliver
from locks.events.webhooks.encryption import decrypt
from locks.events.webhooks.outbox import claim, fan_out
from locks.models import Alert, AlertRule, Delivery, Transport, Webhook
from locks.services import webhooks
from locks.services.audit import Actor
from locks.services.stuck import count_stuck
from locks.system_state.alerting import evaluate_alerts
from octoadmin.monitoring.worker_watch import check_worker
from tests.conftest import issue
from tests.locks.alerts.conftest import beat, evaluate, messages
from tests.locks.alerts.smtp import MailServer, mail_server
from tests.locks.events.open_transactions import wait_for_open_transactions
from tests.locks.events.webhooks.receiver import Receiver, receiving
from tests.polling import until

pytestmark = pytest.mark.usefixtures("committed", "healthy_background")
SHELL = Actor.of_shell()


@pytest.fixture(autouse=True)
def _loopback_is_allowed(settings) -> None:
    settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.0/8")]
    settings.PUBLIC_URL = "https://octo.example"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def mail(settings) -> Iterator[MailServer]:
    with mail_server() as running:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", running.port, False
        settings.DEFAULT_FROM_EMAIL = "octoadmin@example.com"
        yield running


def send_all() -> int:
    sent = 0
    while (claimed := run(claim())) is not None:
        deliver(claimed)
        sent += 1
    return sent


def force(space, name: str, reason: str) -> None:
    digest = digest_of(space)
    run(force_release([requests.ForceRelease(digest=digest, name=name, reason=reason)]))


def digest_of(space) -> str:
    from locks.token_format import parse

    presented = parse(issue(space, f"operator-{Delivery.objects.count()}-{AlertRule.objects.count()}", "locks:force"))
    assert presented is not None
    return presented.digest.hex()


def test_each_transport_gets_its_format_and_a_retry_has_the_same_id(rule, stick, receiver, mail) -> None:
    slack = rule(transport=Transport.SLACK, destination=f"{receiver.url}/slack")
    rule(transport=Transport.TEAMS, destination=f"{receiver.url}/teams")
    signed = rule(transport=Transport.WEBHOOK, destination=f"{receiver.url}/configured")
    by_mail = rule(transport=Transport.EMAIL, destination="ops@example.com dev@example.com")
    stick("deploy/api")
    evaluate()
    receiver.status, mail.refusal = 500, "451 later"
    assert send_all() == 4
    # The two that failed come again.
    receiver.status, mail.refusal = 200, None
    Delivery.objects.filter(status="pending").update(next_attempt_at="2026-01-01T00:00Z")
    Webhook.objects.update(backoff_until=None)
    assert send_all() == 2
    (to_slack,) = receiver.at("/slack")
    assert to_slack.json["text"] == "deploy/api is stuck · Blue / Main"
    (block,) = to_slack.json["blocks"]
    assert "• deploy/api: Overdue, held by worker" in block["text"]["text"]
    assert "<https://octo.example/ui/blue/main/locks/deploy/api|Open Octoadmin>" in block["text"]["text"]
    assert to_slack.headers["X-OctoStore-Delivery-Id"] == str(slack.deliveries.get().public_id)
    assert "X-Octo-Signature" not in to_slack.headers
    (to_teams,) = receiver.at("/teams")
    (attachment,) = to_teams.json["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    texts = [block["inlines"][0]["text"] for block in attachment["content"]["body"]]
    assert texts == ["deploy/api is stuck", "Blue / Main", "deploy/api: Overdue, held by worker"]
    assert attachment["content"]["actions"][0]["url"].startswith("https://octo.example/ui/blue/main/locks/")
    first, second = receiver.at("/configured")
    assert first.body == second.body
    assert first.headers["X-OctoStore-Delivery-Id"] == second.headers["X-OctoStore-Delivery-Id"]
    assert second.is_signed_with(decrypt(signed.secret))
    assert (second.json["event"], second.json["total"]) == ("stuck", 1)
    assert second.json["items"][0]["subject"] == "deploy/api"
    (received,) = mail.mails
    assert received["Subject"] == "deploy/api is stuck · Blue / Main"
    assert received["To"] == "ops@example.com, dev@example.com"
    assert received["Message-ID"] == f"<{by_mail.deliveries.get().public_id}@octoadmin>"
    assert "deploy/api: Overdue, held by worker" in received.get_content()
    failed = by_mail.deliveries.get().log.first()
    assert (failed.status, failed.error) == (451, "The mail server refused the message.")
    assert not Delivery.objects.exclude(status="delivered").exists()


def test_markup_in_names_stays_text(rule, worker, receiver) -> None:
    from tests.locks.dashboard.test_now import age

    rule(transport=Transport.SLACK, destination=f"{receiver.url}/slack")
    worker.takes("job", owner="<!channel> <https://evil.example|x> & co", ttl_seconds=60)
    age("job", seconds=90)
    evaluate()
    send_all()
    (to_slack,) = receiver.at("/slack")
    text = to_slack.json["blocks"][0]["text"]["text"]
    assert "held by &lt;!channel&gt; &lt;https://evil.example|x&gt; &amp; co" in text


def test_a_test_message_is_sent_and_its_result_kept(rule, receiver, mail) -> None:
    slack = rule(transport=Transport.SLACK, destination=f"{receiver.url}/slack")
    failing = rule(transport=Transport.TEAMS, destination=f"{receiver.url}/fails")
    by_mail = rule(transport=Transport.EMAIL, destination="ops@example.com")
    for webhook in (slack, failing, by_mail):
        webhooks.send_test(actor=SHELL, webhook=webhook)
    send_all()
    assert receiver.at("/slack")[0].json["text"] == "Test message · Blue / Main"
    assert mail.mails[0]["Subject"] == "Test message · Blue / Main"
    assert failing.deliveries.get().log.get().status == 500
    assert slack.deliveries.get().status == by_mail.deliveries.get().status == "delivered"


def test_without_a_mail_server_the_attempt_says_so(rule, settings) -> None:
    by_mail = rule(transport=Transport.EMAIL, destination="ops@example.com")
    webhooks.send_test(actor=SHELL, webhook=by_mail)
    send_all()
    assert "EMAIL_HOST is not set" in by_mail.deliveries.get().log.get().error


def test_a_message_that_cannot_be_prepared_is_a_failed_attempt_and_the_others_are_sent(rule, stick, receiver) -> None:
    broken, intact = [rule(transport=Transport.SLACK, destination=f"{receiver.url}/slack") for _ in range(2)]
    stick("job")
    evaluate()
    broken.deliveries.update(content={})
    send_all()
    assert "could not be prepared" in broken.deliveries.get().log.get().error
    assert intact.deliveries.get().status == "delivered"


def test_evaluations_at_the_same_time_send_each_message_once(rule, stick, receiver) -> None:
    rules = [rule(transport=Transport.SLACK, destination=f"{receiver.url}/slack") for _ in range(3)]
    for number in range(5):
        stick(f"job-{number}")
    count_stuck()
    barrier = Barrier(6)

    def work() -> None:
        barrier.wait()
        for _ in range(5):
            evaluate_alerts()
            send_all()
        connection.close()

    with ThreadPoolExecutor(6) as threads:
        for job in [threads.submit(work) for _ in range(6)]:
            job.result()
    send_all()
    assert Alert.objects.count() == 5
    for webhook in rules:
        assert messages(webhook) == [("stuck", [f"job-{number}" for number in range(5)])]
    assert len(receiver.at("/slack")) == 3


def test_force_releases_are_one_message_after_quiet_hours(rule, worker, space) -> None:
    loud = rule(kinds=["force_released"], prefix="jobs/")
    quiet = rule(kinds=["force_released"], quiet_from=time(0), quiet_until=time(0))
    other = rule(kinds=["stuck"])
    for name in ("jobs/1", "other"):
        worker.takes(name)
        force(space, name, "host is gone")
        wait_for_open_transactions()
        evaluate()
    assert messages(loud) == [("force_released", ["jobs/1"])]
    (item,) = loud.deliveries.get().content["items"]
    assert item["text"].endswith(": host is gone")
    assert messages(quiet) == messages(other) == []
    AlertRule.objects.update(quiet_from=None, quiet_until=None)
    for _ in range(2):
        evaluate()
    assert messages(quiet) == [("force_released", ["jobs/1", "other"])]


def test_a_webhook_gets_trouble_only_if_it_names_it(space, stick, worker) -> None:
    def create(**options) -> Webhook:
        return webhooks.create(actor=SHELL, space=space, url="https://hooks.example/in", **options)[1]

    everything = create()
    stuck = create(kinds=["stuck", "stuck_cleared", "system_unhealthy"])
    jobs = create(kinds=["stuck", "system_unhealthy"], prefix="jobs/")
    wait_for_open_transactions()
    stick("other")
    beat(ago=timedelta(minutes=5))
    count_stuck()
    evaluate_alerts()
    wait_for_open_transactions()
    run(fan_out())
    assert [one.kind for one in everything.deliveries.all()] == ["acquired"]
    assert sorted((one.kind, one.lock_name) for one in stuck.deliveries.all()) == [
        ("stuck", "other"), ("system_unhealthy", None),
    ]  # fmt: skip
    assert not jobs.deliveries.exists()
    assert stuck.deliveries.get(kind="stuck").reason == "overdue"


def test_the_server_reports_a_missing_worker(rule, receiver) -> None:
    rule(kinds=["system_unhealthy"], transport=Transport.SLACK, destination=f"{receiver.url}/slack")
    assert not check_worker()
    beat(ago=timedelta(minutes=5))
    for _ in range(2):
        assert check_worker()
    until(lambda: Delivery.objects.filter(status="delivered").exists(), "the message was sent")
    assert receiver.at("/slack")[0].json["text"] == "Octoadmin needs attention · Blue / Main"
    assert len(receiver.at("/slack")) == 1
