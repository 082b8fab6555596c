"""Freeze on the pages: works, is refused, finds another state."""

import re

import pytest

from locks.models import Event, Freeze
from tests.locks.engine.test_freezes import freeze, let_it_end

pytestmark = pytest.mark.django_db

FORM = {"prefix": "deploy/", "reason": "database migration", "minutes": "120"}


@pytest.fixture
def url(now_url):
    return now_url + "freeze"


def test_an_operator_freezes_a_prefix_and_every_page_says_so(worker, visit, olga, victor, now_url, url):
    worker.takes("deploy/a")
    reply = visit(olga).post(url, FORM)
    assert (reply.status_code, reply["Location"]) == (302, now_url)
    for page in ("", "owners", "stuck", "activity", "tokens", "team", "locks/deploy/a"):
        text = visit(victor).get(now_url + page).content.decode()
        assert "Frozen: names that start with" in text
        assert "database migration" in text
        assert "/lift" not in text
    assert "/lift" in visit(olga).get(now_url).content.decode()
    event = Event.objects.get(kind="frozen")
    assert (event.actor_kind, event.actor_name, event.channel, event.reason) == (
        "user", "olga", "web", "database migration",
    )  # fmt: skip


def test_the_preview_counts_what_it_would_touch(worker, visit, olga, url):
    worker.takes("deploy/a")
    worker.gives_back("deploy/b", worker.takes("deploy/b").lease_id)
    worker.takes("other")
    assert "<b>2</b> held, which may finish" in " ".join(visit(olga).get(url).content.decode().split())
    htmx = {"HX-Request": "true", "HX-Target": "preview"}
    text = visit(olga).post(url + "/preview", FORM, headers=htmx).content.decode()
    assert "<b>1</b> held" in " ".join(text.split())
    assert "<b>1</b> free" in " ".join(text.split())
    # Without JavaScript it is the form again, whose button freezes.
    form = visit(olga).post(url + "/preview", FORM).content.decode()
    assert 'value="database migration"' in form
    assert re.findall(r'(action|hx-post)="([^"]*freeze[^"]*)" ', form)[:2] == [("action", url), ("hx-post", url)]


def test_a_prefix_with_a_null_character_is_no_error(visit, olga, url):
    browser = visit(olga)
    assert browser.get(url + "?prefix=%00").status_code == 200
    wrong = {**FORM, "prefix": "a\0"}
    assert browser.post(url, wrong).status_code == 422
    for headers in ({}, {"HX-Request": "true", "HX-Target": "preview"}):
        assert browser.post(url + "/preview", wrong, headers=headers).status_code == 200


def test_it_is_lifted_from_the_banner(worker, visit, olga, space, now_url):
    frozen = freeze(space, "deploy/")
    assert visit(olga).post(f"{now_url}freezes/{frozen.pk}/lift").status_code == 302
    assert "Frozen:" not in visit(olga).get(now_url).content.decode()
    assert Event.objects.get(kind="unfrozen").actor_name == "olga"


def test_a_refresh_brings_the_banner_and_its_end(visit, olga, space, now_url):
    frozen = freeze(space)
    htmx = {"HX-Request": "true", "HX-Target": "live-content"}
    assert "Frozen: all names of Main" in visit(olga).get(now_url, headers=htmx).content.decode()
    let_it_end(frozen)
    text = visit(olga).get(now_url, headers=htmx).content.decode()
    assert 'id="freezes"' in text
    assert "Frozen:" not in text


def test_many_are_folded(visit, olga, space, now_url):
    for number in range(5):
        freeze(space, f"a{number}")
    assert "2 more" in visit(olga).get(now_url).content.decode()


def test_the_lock_page_says_why_it_cannot_be_acquired(worker, visit, victor, space, now_url):
    held = worker.takes("deploy/a")
    freeze(space, "deploy/")
    assert "after this hold, no claim is granted" in visit(victor).get(now_url + "locks/deploy/a").content.decode()
    worker.gives_back("deploy/a", held.lease_id)
    assert "Free, but frozen for another" in visit(victor).get(now_url + "locks/deploy/a").content.decode()


def test_activity_tells_of_both_ends(visit, olga, space, now_url):
    lifted = freeze(space, "deploy/")
    visit(olga).post(f"{now_url}freezes/{lifted.pk}/lift")
    text = visit(olga).get(now_url + "activity?kind=frozen&kind=unfrozen").content.decode()
    assert "froze names that start with" in text
    assert "olga lifted the freeze of" in text


@pytest.mark.parametrize("change", [{"reason": ""}, {"minutes": "7"}, {"prefix": "path:../x"}])
def test_what_is_not_a_freeze_is_refused(visit, olga, url, change):
    assert visit(olga).post(url, {**FORM, **change}).status_code == 422
    assert not Freeze.objects.exists()


def test_a_viewer_is_refused_and_others_find_nothing(visit, victor, bob, url, space, now_url):
    frozen = freeze(space)
    for path in (url, url + "/preview", f"{now_url}freezes/{frozen.pk}/lift"):
        assert visit(victor).post(path, FORM).status_code == 403
        assert visit(bob).post(path, FORM).status_code == 404
    assert "Freeze…" not in visit(victor).get(now_url).content.decode()


def test_a_freeze_that_is_over_or_of_another_space_is_not_lifted(visit, olga, space, red_space, now_url):
    over, other = freeze(space), freeze(red_space)
    let_it_end(over)
    reply = visit(olga).post(f"{now_url}freezes/{over.pk}/lift")
    assert (reply.status_code, "Nothing was lifted" in reply.content.decode()) == (409, True)
    assert visit(olga).post(f"{now_url}freezes/{other.pk}/lift").status_code == 404


def test_a_freeze_asks_who_it_is_after_a_while(later, olga, url):
    reply = later(olga).post(url, FORM)
    assert "Confirm it is you" in reply.content.decode()
    assert not Freeze.objects.exists()
