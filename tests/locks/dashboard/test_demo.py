"""The demo team."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from locks.engine.execution import run
from locks.engine.maintenance import purge_waiters, sweep
from locks.management.commands.create_demo import Demo
from locks.models import Event, Lock, SpaceUsage, User, Waiter

pytestmark = pytest.mark.django_db


def test_the_demo_fills_a_team_whose_pages_open(visit, capsys):
    call_command("create_demo", password="a password for the demo", days=1)
    assert "Team Harbor: sign in as ada, olga, victor" in capsys.readouterr().out
    browser = visit(User.objects.get(username="olga"))
    names = [row.lock.name for row in browser.get("/ui/harbor/production/").context["lock_list"].rows]
    assert "deploy/api" in names
    assert browser.get("/ui/harbor/production/locks/deploy/api").context["percentiles"].count > 5
    contended = browser.get("/ui/harbor/production/contention").context["contention"]
    assert len(contended.most_refused) > 5
    assert contended.most_waited
    assert {"acquired", "released", "expired"} <= set(Event.objects.values_list("kind", flat=True))
    assert Lock.objects.count() > 10
    assert SpaceUsage.objects.get(space__slug="production").live_locks > 10


def test_it_is_made_once(visit):
    call_command("create_demo", password="a password for the demo", days=1, verbosity=0)
    with pytest.raises(CommandError, match="already"):
        call_command("create_demo")


def test_its_waiters_wait_a_minute_at_most_and_try_again():
    demo = Demo(seed=8, history=timedelta(hours=2))
    demo.fill(password="a password for the demo")
    run(sweep())
    run(purge_waiters())
    waiting = set(Waiter.objects.values_list("name", "owner"))
    assert ("deploy/api", "runner-12") in waiting
    now = timezone.now()
    assert all(now - waiter.enqueued_at < timedelta(seconds=60) for waiter in Waiter.objects.all())
    Waiter.objects.update(deadline_at=now)
    demo.play()
    assert set(Waiter.objects.filter(name="deploy/api").values_list("owner", flat=True)) == {"runner-12", "runner-9"}
    assert Waiter.objects.earliest("enqueued_at").enqueued_at > now
    taken = Lock.objects.get(name="migrate/orders-db")
    assert taken.owner == "runner-7", "a free lock has no queue: the first waiter acquires it"
    assert not Waiter.objects.filter(name=taken.name, owner=taken.owner).exists()
