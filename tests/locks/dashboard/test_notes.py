"""Notes on locks and prefixes: where they are shown, which one applies, who edits them."""

import pytest

from locks.models import Event, Note
from locks.services import notes
from locks.services.audit import Actor

pytestmark = pytest.mark.django_db

URL = "/ui/blue/main/note/deploy/api"
FORM = {"text": "Ask Ada first.", "runbook_url": "https://wiki.example/deploy", "name": "deploy/api"}


@pytest.fixture(autouse=True)
def held(worker):
    return worker.takes("deploy/api", ttl_seconds=600)


def put(space, name: str, text: str, *, is_prefix: bool) -> None:
    notes.save(actor=Actor.of_shell(), space=space, name=name, is_prefix=is_prefix, text=text, runbook_url="")


def test_an_operator_pins_a_note_that_every_place_shows(space, olga, victor, visit):
    assert visit(olga).post(URL, FORM)["Location"] == "/ui/blue/main/locks/deploy/api"
    lock_id = space.locks.get().pk
    for path in ("locks/deploy/api", f"?open={lock_id}", "locks/deploy/api/force-release"):
        shown = visit(olga).get(f"/ui/blue/main/{path}").text
        assert "Ask Ada first." in shown
        assert 'href="https://wiki.example/deploy"' in shown
    assert "Ask Ada first." in visit(victor).get("/ui/blue/main/locks/deploy/api").text
    event = Event.objects.get(kind="note_changed")
    assert (event.actor_name, event.lock_name) == ("olga", "deploy/api")
    assert event.detail["note"] == {"from": "", "to": "Ask Ada first."}


def test_the_longest_prefix_wins_and_the_lock_s_own_note_over_all(space, olga, visit):
    def shown() -> str:
        return visit(olga).get("/ui/blue/main/locks/deploy/api").text

    put(space, "dep", "shorter", is_prefix=True)
    put(space, "deploy/", "longer", is_prefix=True)
    put(space, "deploy/other", "another", is_prefix=True)
    put(space, "deploy", "the lock deploy", is_prefix=False)
    assert "longer" in shown()
    assert "shorter" not in shown()
    put(space, "deploy/api", "its own", is_prefix=False)
    assert "its own" in shown()
    put(space, "deploy/api", "", is_prefix=False)
    assert "longer" in shown()


def test_a_note_is_edited_and_removed_with_its_event(space, olga, visit):
    put(space, "deploy/", "old", is_prefix=True)
    browser = visit(olga)
    assert "old" in browser.get(URL).text
    browser.post(URL, {"text": "new", "name": "deploy/", "is_prefix": "on"})
    assert Note.objects.get().text == "new"
    browser.post(URL, {"text": "", "name": "deploy/", "is_prefix": "on"})
    assert not Note.objects.exists()
    removed = Event.objects.filter(kind="note_changed").latest("id")
    assert removed.detail == {"prefix": "deploy/", "note": {"from": "new", "to": ""}}
    before = Event.objects.count()
    browser.post(URL, {"text": "", "name": "deploy/", "is_prefix": "on"})
    assert Event.objects.count() == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"runbook_url": "javascript:alert(1)"}, "begins with https:// or http://"),
        ({"runbook_url": "ftp://wiki.example/"}, "begins with https:// or http://"),
        ({"name": "cron/", "is_prefix": "on"}, "a prefix of deploy/api"),
        ({"name": "deploy/"}, "select that the note is for all names"),
        ({"text": "x" * 2001}, "at most 2000"),
    ],
)
def test_what_is_no_note_of_this_lock_is_refused(change, error, olga, visit):
    reply = visit(olga).post(URL, FORM | change)
    assert reply.status_code == 422
    assert error in reply.text
    assert not Note.objects.exists()


def test_a_space_has_so_many_notes_at_most(space, olga, visit, monkeypatch):
    monkeypatch.setattr(notes, "MAX_NOTES_PER_SPACE", 1)
    put(space, "cron/", "one", is_prefix=True)
    reply = visit(olga).post(URL, FORM)
    assert (reply.status_code, "Remove one first" in reply.text) == (409, True)


def test_text_is_not_html(olga, visit):
    visit(olga).post(URL, FORM | {"text": "<script>alert(1)</script>"})
    assert "<script>alert(1)" not in visit(olga).get("/ui/blue/main/locks/deploy/api").text
