"""The number of queries of a page does not depend on how much it shows."""

import pytest
from django.http import QueryDict

from locks.dashboard.bulk_release.selection import selection
from locks.dashboard.owners.queries import OwnersFilters, owners
from locks.engine import requests
from locks.engine.execution import run
from locks.engine.operations import acquire, release
from locks.models import Transport
from locks.services import bulk_release, webhooks
from locks.services.alerts.rules import RuleValues
from locks.services.alerts.rules import create as create_rule
from locks.services.audit import Actor
from locks.system_state.counters import latest
from tests.locks.dashboard.query_counts import QUERY_COUNTS
from tests.sample_run import sample_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def busy(worker):
    names = [f"{kind}-{number}" for number in range(51) for kind in ("job", "done")]
    taken = run(acquire([requests.Acquire(digest=worker.digest, name=name, metadata=f"n={name}") for name in names]))
    done = [lease for lease in taken if lease.name.startswith("done-")]
    run(release([requests.Release(digest=worker.digest, name=lease.name, lease_id=lease.lease_id) for lease in done]))


@pytest.fixture
def batches(busy, alice, space):
    def prepare():
        selected = selection(space=space, form=QueryDict("all=now"))
        return bulk_release.prepare(space=space, user=alice, selection_label=selected.label, locks=selected.locks)

    prepared, running = prepare(), prepare()
    bulk_release.confirm(batch=running, actor=Actor.of_user(alice), reason="test", lock_delay_seconds=0)
    return {"prepared": prepared.pk, "running": running.pk}


@pytest.fixture
def sample(busy, space):
    return sample_run(space)


@pytest.fixture
def webhook(space):
    hooks = [webhooks.create(actor=Actor.of_shell(), space=space, url="https://hooks.example/in")[1] for _ in range(3)]
    for _ in range(3):
        webhooks.send_test(actor=Actor.of_shell(), webhook=hooks[0]).log.create(number=1, duration_ms=5, status=500)
    return hooks[0]


@pytest.fixture
def rule(space):
    values = RuleValues(
        name="On call", kinds=["stuck"], prefix="", transport=Transport.SLACK, destination="https://hooks.example/in"
    )
    rules = [create_rule(actor=Actor.of_shell(), space=space, values=values)[1] for _ in range(3)]
    for _ in range(3):
        webhooks.send_test(actor=Actor.of_shell(), webhook=rules[0]).log.create(number=1, duration_ms=5, status=500)
    return rules[0]


@pytest.mark.parametrize(
    ("page", "path", "headers"),
    [
        ("now", "", {}),
        ("now, filtered", "?q=job-2", {}),
        ("now, filtered, many pages", "?q=job", {}),
        ("now, rows open", "?open={first}&open={second}", {}),
        ("now, refreshed", "", {"HX-Request": "true", "HX-Target": "live-content"}),
        ("now, in groups", "?group=owner", {}),
        ("owners", "owners", {}),
        ("owners, rows open", "owners?open={owner}", {}),
        ("owner", "owner?name=worker", {}),
        ("timeline", "timeline?prefix=job", {}),
        ("wait graph", "waits", {}),
        ("runs", "runs", {}),
        ("a run", "runs/{run}?path=/shared/1", {}),
        ("stuck", "stuck", {}),
        ("stuck, refreshed", "stuck", {"HX-Request": "true", "HX-Target": "live-content"}),
        ("snooze", "snooze/job-1", {}),
        ("bulk releases", "releases", {}),
        ("bulk release, prepared", "releases/{prepared}", {}),
        ("bulk release, running", "releases/{running}", {}),
        ("lock", "locks/job-1", {}),
        ("contention", "contention", {}),
        ("activity", "activity", {}),
        ("activity, filtered by token", "activity?token={token}", {}),
        ("activity, new events", "activity/new-count", {}),
        ("event", "activity/{event}", {}),
        ("connect", "connect", {}),
        ("system", "system", {}),
        ("force-release", "locks/job-1/force-release", {}),
        ("freeze", "freeze", {}),
        ("reserve", "reserve/job-1", {}),
        ("reserve a name", "reserve", {}),
        ("ask for release", "ask/job-1", {}),
        ("note", "note/job-1", {}),
        ("tokens", "tokens", {}),
        ("tokens, history", "tokens?show=history", {}),
        ("issue a token", "tokens/new", {}),
        ("rotate a token", "tokens/{token}/rotate", {}),
        ("revoke a token", "tokens/{token}/revoke", {}),
        ("team", "team", {}),
        ("team, activity", "team/activity", {}),
        ("webhooks", "webhooks", {}),
        ("a webhook", "webhooks/{webhook}", {}),
        ("alerts", "alerts", {}),
        ("an alert rule", "alerts/{rule}", {}),
        ("limits", "team/limits", {}),
        ("namespaces", "team/namespaces", {}),
        ("names", "names", {}),
        ("names, folders open", "names?open=run:&open=layer:", {}),
    ],
)
def test_pages_run_a_fixed_number_of_queries(
    page, path, headers, busy, batches, webhook, rule, sample, space, alice, visit, now_url, django_assert_num_queries
):
    from locks.models import Event, Lock, Token

    browser = visit(alice)
    owner = owners(space=space, filters=OwnersFilters()).rows[0]
    first, second = Lock.objects.filter(name__in=["job-1", "job-2"])
    path = path.format(
        first=first.pk, second=second.pk, event=Event.objects.filter(kind="acquired").latest("id").pk,
        token=Token.objects.get(name="worker").public_id, owner=owner.owner.key, webhook=webhook.public_id,
        rule=rule.public_id, run=sample.id, **batches,
    )  # fmt: skip
    latest.clear()
    with django_assert_num_queries(QUERY_COUNTS[page]):
        assert browser.get(now_url + path, headers=headers).status_code == 200
