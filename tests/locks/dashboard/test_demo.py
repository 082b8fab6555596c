"""The demo team."""

import pytest
from django.core.management import CommandError, call_command

from locks.models import Event, Lock, SpaceUsage, User

pytestmark = pytest.mark.django_db


def test_the_demo_fills_a_team_whose_pages_open(visit, capsys):
    call_command("create_demo", password="a password for the demo", days=1)
    assert "Team Harbor: sign in as ada, olga, victor" in capsys.readouterr().out
    browser = visit(User.objects.get(username="olga"))
    names = [row.lock.name for row in browser.get("/ui/harbor/production/").context["board"].rows]
    assert "deploy/api" in names
    assert browser.get("/ui/harbor/production/locks/deploy/api").context["percentiles"].count > 5
    contended = browser.get("/ui/harbor/production/contention").context["found"]
    assert len(contended.most_refused) > 5
    assert contended.most_waited
    assert {"acquired", "released", "expired"} <= set(Event.objects.values_list("kind", flat=True))
    assert Lock.objects.count() > 10
    assert SpaceUsage.objects.get(space__slug="production").live_locks > 10


def test_it_is_made_once(visit):
    call_command("create_demo", password="a password for the demo", days=1, verbosity=0)
    with pytest.raises(CommandError, match="already"):
        call_command("create_demo")
