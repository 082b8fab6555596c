"""The page of all elections, for superusers."""

import pytest
from django.test import Client

from locks.services import elections
from tests.locks.dashboard.query_counts import QUERY_COUNTS

pytestmark = pytest.mark.django_db
URL = "/ui/elections"


@pytest.fixture
def _on(settings):
    settings.PUBLIC_ELECTIONS = True


def campaign(room: str, candidate: str, metadata: str | None = None) -> dict:
    body = {"candidate_id": candidate, "metadata": metadata}
    return Client().post(f"/elections/{room}/campaign", body, content_type="application/json").json()


@pytest.mark.usefixtures("_on")
def test_it_lists_rooms_with_leader_term_and_age(visit, root):
    leads = campaign("room-one", "worker-a", metadata="host=<a>")
    resigned = campaign("room-two", "worker-b")
    Client().post(
        "/elections/room-two/resign", {"leader_token": resigned["leader_token"]}, content_type="application/json"
    )
    page = visit(root).get(URL).content.decode()
    for text in ("room-one", "worker-a", str(leads["leader"]["term"]), "host=&lt;a&gt;", "Leads for"):
        assert text in page
    assert "room-two" not in page
    assert leads["leader_token"] not in page


@pytest.mark.usefixtures("_on")
def test_a_room_leads_to_its_lock(visit, root):
    campaign("room-one", "worker-a")
    browser = visit(root)
    path = f"/ui/{elections.TEAM_SLUG}/{elections.SPACE_SLUG}/locks/room-one"
    assert f'href="{path}"' in browser.get(URL).content.decode()
    assert browser.get(path).status_code == 200


@pytest.mark.usefixtures("_on")
def test_the_rooms_are_hidden_from_everyone_else(visit, alice):
    campaign("room-one", "worker-a")
    browser = visit(alice)
    assert browser.get(URL).status_code == 403
    assert browser.get(f"/ui/{elections.TEAM_SLUG}/{elections.SPACE_SLUG}/").status_code == 404
    assert 'href="/ui/elections"' not in browser.get("/ui/account").content.decode()


def test_it_says_that_elections_are_off(visit, root):
    assert "OCTO_PUBLIC_ELECTIONS=true" in visit(root).get(URL).content.decode()


@pytest.mark.usefixtures("_on")
def test_it_says_that_there_is_no_leader(visit, root):
    assert "No room has a leader" in visit(root).get(URL).content.decode()


@pytest.mark.usefixtures("_on")
def test_the_number_of_queries_is_fixed(visit, root, django_assert_num_queries):
    for number in range(3):
        campaign(f"room-{number}xx", "worker-a")
    browser = visit(root)
    with django_assert_num_queries(QUERY_COUNTS["elections"]):
        browser.get(URL)
