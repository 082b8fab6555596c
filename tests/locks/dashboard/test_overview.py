"""Overview: the spaces that a user may see, with what needs attention in each."""

import re

import pytest
from django.test import Client

from locks.models import Space, StuckCount, Waiter
from locks.models.token import Token
from locks.system_state.counters import latest
from tests.locks.dashboard.query_counts import QUERY_COUNTS

pytestmark = pytest.mark.django_db

URL = "/ui/overview"
REFRESH = {"HX-Request": "true", "HX-Target": "live-content"}


@pytest.fixture
def staging(blue):
    return Space.objects.create(team=blue, slug="staging", name="Staging")


def numbers(reply, space: Space) -> list[str]:
    """The cells of the row of a space: held, waiting, expiring, overdue, stuck, role."""
    row = re.search(rf'<tr data-row id="space-{space.pk}">.*?</tr>', reply.text, re.DOTALL)
    assert row
    cells = re.findall(r"<td[^>]*>(.*?)</td>", row[0], re.DOTALL)
    return [re.sub(r"<[^>]*>", "", cell).strip() for cell in cells]


def test_each_space_has_its_counts_and_the_role(space, staging, olga, worker, visit):
    worker.takes("deploy", ttl_seconds=600)
    worker.takes("short", ttl_seconds=1)
    Waiter.objects.create(
        space=space, name="deploy", token=Token.objects.get(), owner="b", deadline_at="2999-01-01T00:00Z"
    )
    StuckCount.objects.create(space=space, stuck=3)
    reply = visit(olga).get(URL)
    held, waiting, _expiring, _overdue, stuck, role = numbers(reply, space)
    assert (held, waiting, stuck, role) == ("2", "1", "3", "operator")
    assert numbers(reply, staging) == ["0", "0", "0", "0", "0", "operator"]


def test_the_first_page_is_the_overview_or_the_only_space(space, olga, visit, blue):
    browser = visit(olga)
    assert browser.get("/ui/")["Location"] == "/ui/blue/main/"
    assert "Overview" in browser.get(URL).text
    Space.objects.create(team=blue, slug="staging", name="Staging")
    assert "Overview" in browser.get("/ui/").text


def test_spaces_of_other_teams_are_not_listed(space, staging, red_space, olga, root, visit):
    assert f'id="space-{red_space.pk}"' not in visit(olga).get(URL).text
    assert f'id="space-{red_space.pk}"' in visit(root).get(URL).text


def test_without_a_team_it_says_what_to_do(bob, red, visit):
    red.memberships.all().delete()
    assert "You are not in a team yet" in visit(bob).get(URL).text
    assert Client().get(URL).status_code == 302


@pytest.mark.parametrize("spaces", [1, 20])
@pytest.mark.parametrize(("page", "headers"), [("overview", {}), ("overview, refreshed", REFRESH)])
def test_one_query_counts_all_spaces(page, headers, spaces, space, blue, olga, visit, django_assert_num_queries):
    for number in range(spaces):
        Space.objects.create(team=blue, slug=f"s{number}", name=f"Space {number}")
    browser = visit(olga)
    latest.clear()
    with django_assert_num_queries(QUERY_COUNTS[page]):
        reply = browser.get(URL, headers=headers)
    assert ("<html" in reply.text) == (not headers)
