"""What becomes an alert, which rules send it, and that each sends it once."""

from datetime import UTC, datetime, time, timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from locks.models import Alert, AlertNotice, AlertRule, Event, StuckCount, Token
from locks.services import tokens, webhooks
from locks.services.alerts import evaluation
from locks.services.alerts.quiet_hours import is_quiet
from locks.services.audit import Actor
from locks.services.snooze import snooze
from locks.system_state.alerting import evaluate_alerts
from tests.conftest import issue
from tests.locks.alerts.conftest import beat, clear, evaluate, events, messages
from tests.locks.dashboard.test_now import age

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("healthy_background")]
SHELL = Actor.of_shell()


def test_a_stuck_lock_is_sent_once_and_so_is_its_end(rule, stick) -> None:
    on_call = rule()
    stick("job")
    for _ in range(3):
        evaluate()
    assert messages(on_call) == [("stuck", ["job"])]
    (item,) = on_call.deliveries.get().content["items"]
    assert (item["owner"], item["reasons"], item["text"]) == ("worker", ["overdue"], "Overdue")
    age("job", seconds=-3600)
    clear()
    evaluate()
    assert messages(on_call) == [("stuck", ["job"]), ("stuck_cleared", ["job"])]
    assert events("stuck", "stuck_cleared") == [("stuck", "job"), ("stuck_cleared", "job")]
    assert Event.objects.get(kind="stuck").detail == {"reasons": ["overdue"]}


def test_trouble_that_comes_back_at_once_is_the_same_and_later_another(rule, stick) -> None:
    on_call = rule()
    stick("job")
    evaluate()
    age("job", seconds=-3600)
    evaluate()
    age("job", seconds=3600)
    evaluate()
    assert Alert.objects.get().absent_since is None
    assert messages(on_call) == [("stuck", ["job"])]
    age("job", seconds=-3600)
    clear()
    age("job", seconds=3600)
    evaluate()
    assert [kind for kind, _ in messages(on_call)] == ["stuck", "stuck_cleared", "stuck"]


def test_a_rule_sends_only_what_lasts_and_matches(rule, stick) -> None:
    later = rule(min_minutes=10)
    jobs = rule(prefix="jobs/")
    other_reason = rule(reasons=["long_queue"])
    same_reason = rule(reasons=["long_queue", "overdue"])
    tokens_only = rule(kinds=["token_expiring"])
    paused = rule()
    webhooks.pause(actor=SHELL, webhook=paused)
    stick("jobs/1")
    stick("other")
    evaluate()
    # One message for all that is due.
    assert messages(same_reason) == [("stuck", ["jobs/1", "other"])]
    assert messages(jobs) == [("stuck", ["jobs/1"])]
    assert messages(later) == messages(other_reason) == messages(tokens_only) == messages(paused) == []
    Alert.objects.update(opened_at=Now() - timedelta(minutes=11))
    evaluate()
    assert messages(later) == [("stuck", ["jobs/1", "other"])]
    webhooks.resume(actor=SHELL, webhook=paused)
    evaluate()
    assert messages(paused) == [("stuck", ["jobs/1", "other"])]


def test_an_end_is_not_sent_by_a_rule_that_did_not_send_the_beginning(rule, stick) -> None:
    later = rule(min_minutes=10)
    stick("job")
    evaluate()
    age("job", seconds=-3600)
    clear()
    assert messages(later) == []


def test_rules_of_another_team_get_nothing(rule, stick, red_space) -> None:
    from locks.models import Transport
    from locks.services.alerts.rules import RuleValues, create

    values = RuleValues(
        name="Red", kinds=["stuck"], prefix="", transport=Transport.WEBHOOK, destination="https://hooks.example/in",
        min_minutes=0,
    )  # fmt: skip
    _secret, of_red = create(actor=SHELL, space=red_space, values=values)
    of_blue = rule()
    stick("job")
    evaluate()
    assert messages(of_blue) == [("stuck", ["job"])]
    assert messages(of_red) == []


def test_a_snoozed_lock_is_neither_sent_nor_reported_as_cleared(rule, stick, space) -> None:
    on_call = rule()
    stick("job")
    evaluate()
    fencing_token = Alert.objects.get().fencing_token
    snooze(space=space, lock_name="job", fencing_token=fencing_token, owner="w", hours=4, note="known", actor=SHELL)
    clear()
    assert messages(on_call) == [("stuck", ["job"])]
    second = rule()
    evaluate()
    assert messages(second) == []


def test_without_a_recent_count_nothing_is_opened_or_closed(rule, stick) -> None:
    on_call = rule()
    stick("job")
    evaluate()
    age("job", seconds=-3600)
    StuckCount.objects.update(
        counted_at=Now() - timedelta(hours=1), lock_ids=[], fencing_tokens=[], reasons=[], stuck=0
    )
    for _ in range(2):
        evaluation.evaluate(unhealthy=[])
    assert Alert.objects.get().absent_since is None
    assert messages(on_call) == [("stuck", ["job"])]


def test_a_lock_beyond_the_remembered_ones_is_not_taken_for_cleared(rule, stick) -> None:
    stick("job")
    evaluate()
    StuckCount.objects.update(lock_ids=[], fencing_tokens=[], reasons=[], stuck=1001)
    evaluation.evaluate(unhealthy=[])
    assert Alert.objects.get().absent_since is None


def test_a_token_that_expires_soon_is_sent_once(rule, space) -> None:
    week, day = rule(kinds=["token_expiring"]), rule(kinds=["token_expiring"], token_days=1)
    for name in ("ci", "short", "new", "revoked", "forever"):
        issue(space, name, "locks:read")
    own = Token.objects.filter(space=space)
    old = {"created_at": Now() - timedelta(days=90), "expires_at": Now() + timedelta(days=5)}
    own.filter(name__in=["ci", "revoked"]).update(**old)
    own.filter(name="revoked").update(revoked_at=Now())
    own.filter(name="short").update(expires_at=Now() + timedelta(hours=1))
    # Issued for six days: in the last quarter of them.
    own.filter(name="new").update(expires_at=Now() + timedelta(days=6))
    for _ in range(2):
        evaluate()
    ci = own.get(name="ci")
    assert messages(week) == [("token_expiring", [ci.public_id])]
    assert messages(day) == []
    assert Event.objects.get(kind="token_expiring").reason.startswith(f"ci ({ci.public_id}) expires at 20")
    tokens.rotate(actor=SHELL, token=ci, overlap=timedelta(0))
    clear()
    assert messages(week) == [("token_expiring", [ci.public_id])]
    assert Alert.objects.get().closed_at is not None


def test_a_missing_worker_makes_the_system_unhealthy(rule) -> None:
    system = rule(kinds=["system_unhealthy"])
    evaluate()
    assert messages(system) == []
    beat(ago=timedelta(minutes=5))
    for _ in range(2):
        evaluate()
    assert messages(system) == [("system_unhealthy", ["worker"])]
    beat(ago=timedelta(0))
    clear()
    assert messages(system) == [("system_unhealthy", ["worker"]), ("system_recovered", ["worker"])]
    assert events("system_unhealthy", "system_recovered") == [("system_unhealthy", None), ("system_recovered", None)]


def test_in_quiet_hours_a_rule_waits_and_then_sends_what_is_still_true(rule, stick) -> None:
    quiet = rule(quiet_from=time(0), quiet_until=time(0))
    stick("passing")
    stick("staying")
    evaluate()
    age("passing", seconds=-3600)
    clear()
    assert messages(quiet) == []
    AlertRule.objects.update(quiet_from=None, quiet_until=None)
    evaluate()
    assert messages(quiet) == [("stuck", ["staying"])]
    AlertRule.objects.update(quiet_from=time(0), quiet_until=time(0))
    age("staying", seconds=-3600)
    clear()
    assert len(messages(quiet)) == 1
    AlertRule.objects.update(quiet_from=None, quiet_until=None)
    evaluate()
    assert messages(quiet)[1:] == [("stuck_cleared", ["staying"])]


@pytest.mark.parametrize(
    ("quiet_from", "quiet_until", "days", "at", "expected"),
    [
        (9, 17, [], "2026-11-18T08:30+00:00", True),  # 9:30 in Berlin
        (9, 17, [], "2026-11-18T07:59+00:00", False),
        (9, 17, [], "2026-11-18T16:00+00:00", False),  # 17:00 there
        (22, 7, [], "2026-11-18T21:00+00:00", True),
        (22, 7, [], "2026-11-18T05:59+00:00", True),
        (22, 7, [], "2026-11-18T06:00+00:00", False),
        # Friday's night ends on Saturday morning.
        (22, 7, [5], "2026-11-21T02:00+00:00", True),
        (22, 7, [5], "2026-11-20T02:00+00:00", False),
        (22, 7, [5], "2026-11-21T22:00+00:00", False),
        (0, 0, [6, 7], "2026-11-22T12:00+00:00", True),
        (0, 0, [6, 7], "2026-11-23T12:00+00:00", False),
        # In summer Berlin is two hours ahead.
        (9, 17, [], "2026-07-01T07:30+00:00", True),
    ],
)
def test_quiet_hours_follow_the_clock_of_their_zone(quiet_from, quiet_until, days, at, expected) -> None:
    rule = AlertRule(
        quiet_from=time(quiet_from), quiet_until=time(quiet_until), quiet_zone="Europe/Berlin", quiet_days=days
    )
    assert is_quiet(rule, datetime.fromisoformat(at).astimezone(UTC)) is expected


def test_quiet_hours_are_looked_at_before_anything_is_written(rule, stick) -> None:
    """Readers of the history stop at the oldest transaction that has written."""
    rule(quiet_from=time(22), quiet_until=time(6), quiet_zone="Europe/Berlin")
    stick("job")
    with CaptureQueriesContext(connection) as queries:
        evaluate_alerts()
    statements = [query["sql"] for query in queries]
    lock, quiet = (
        next(place for place, sql in enumerate(statements) if words in sql)
        for words in ("pg_advisory_xact_lock", '"quiet_from"')
    )
    assert quiet < lock


def test_an_unknown_zone_does_not_stop_the_others() -> None:
    rule = AlertRule(quiet_from=time(9), quiet_until=time(17), quiet_zone="Mars/Base", quiet_days=[])
    assert is_quiet(rule, datetime(2026, 11, 18, 12, tzinfo=UTC))


def test_many_locks_make_one_message_that_lists_the_first(rule, stick) -> None:
    on_call = rule()
    for number in range(23):
        stick(f"job-{number:02}")
    evaluate()
    (message,) = on_call.deliveries.all()
    assert message.content["total"] == 23
    assert len(message.content["items"]) == 20


def test_the_database_refuses_a_second_notice_and_a_second_open_alert(rule, stick, space) -> None:
    rule()
    stick("job")
    evaluate()
    notice, alert = AlertNotice.objects.get(), Alert.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        AlertNotice.objects.create(rule_id=notice.rule_id, alert_id=notice.alert_id, kind=notice.kind)
    with pytest.raises(IntegrityError), transaction.atomic():
        Alert.objects.create(space=space, kind=alert.kind, subject=alert.subject)
    Alert.objects.create(space=None, kind="system_unhealthy", subject="worker")
    with pytest.raises(IntegrityError), transaction.atomic():
        Alert.objects.create(space=None, kind="system_unhealthy", subject="worker")


def test_closed_alerts_are_purged(rule, stick) -> None:
    rule()
    stick("job")
    evaluate()
    Alert.objects.update(closed_at=Now() - timedelta(days=8))
    evaluation.purge()
    assert not Alert.objects.exists()
    assert not AlertNotice.objects.exists()
