"""Saved filters: a name for the query string of a page, for one user."""

import pytest

from locks.models import Event, SavedFilter
from locks.services import saved_filters

pytestmark = pytest.mark.django_db

URL = "/ui/blue/main/filters"
FORM = {"page": "now", "name": "My deploys", "query": "?prefix=deploy%2F&sort=left&page=3&open=7&q="}


def test_a_filter_is_saved_without_the_position_and_linked_on_its_page(space, victor, olga, visit):
    browser = visit(victor)
    assert browser.post(URL, FORM)["Location"] == "/ui/blue/main/?prefix=deploy%2F&sort=left"
    shown = browser.get("/ui/blue/main/").text
    assert 'href="/ui/blue/main/?prefix=deploy%2F&amp;sort=left">My deploys</a>' in shown
    assert "My deploys" not in visit(olga).get("/ui/blue/main/").text
    assert "My deploys" not in browser.get("/ui/blue/main/owners").text
    assert Event.objects.get(kind="filter_saved").detail["name"] == "My deploys"
    browser.post(URL, FORM | {"query": "q=other"})
    assert SavedFilter.objects.get().query == "q=other"


def test_a_filter_is_deleted_by_its_user_only(space, victor, olga, visit):
    visit(victor).post(URL, FORM)
    path = f"{URL}/{SavedFilter.objects.get().pk}/delete"
    assert visit(olga).post(path).status_code == 404
    assert visit(victor).post(path)["Location"] == "/ui/blue/main/"
    assert not SavedFilter.objects.exists()
    assert visit(victor).post(path).status_code == 404
    assert Event.objects.filter(kind="filter_deleted").count() == 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"query": "?page=2"}, "Filter the list first"),
        ({"name": " "}, "Enter a name"),
        ({"name": "x" * 61}, "at most 60"),
        # Each letter is six characters once it is encoded.
        ({"query": "q=" + "ä" * 400}, "longer than 2000 characters"),
    ],
)
def test_what_is_no_filter_is_refused(change, error, space, victor, visit):
    browser = visit(victor)
    reply = browser.post(URL, FORM | change, follow=True)
    assert error in reply.text
    assert not SavedFilter.objects.exists()


def test_pages_without_filters_have_none(space, victor, visit):
    assert visit(victor).post(URL, FORM | {"page": "team-page"}).status_code == 404


def test_a_page_has_so_many_at_most(space, victor, visit, monkeypatch):
    monkeypatch.setattr(saved_filters, "MAX_PER_PAGE", 1)
    browser = visit(victor)
    browser.post(URL, FORM)
    reply = browser.post(URL, FORM | {"name": "Another"}, follow=True)
    assert "delete one first" in reply.text
    assert SavedFilter.objects.get().name == "My deploys"
