"""Search: pages, locks, owners, tokens and requests, in the spaces that the user may see."""

import re
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client

from locks.dashboard.search import queries
from locks.models import Event, Space, Token
from tests.conftest import issue
from tests.locks.dashboard.conftest import Worker
from tests.locks.dashboard.query_counts import QUERY_COUNTS

pytestmark = pytest.mark.django_db

URL = "/ui/search"


def links(reply) -> list[str]:
    found = re.findall(r'class="search-result" href="([^"]*)"', reply.text)
    return [link.replace("&amp;", "&") for link in found]


@pytest.fixture
def red_worker(red_space) -> Worker:
    return Worker(issue(red_space, "deployer", "locks:read", "locks:write"))


def test_locks_owners_tokens_and_requests_are_found_by_how_they_begin(space, worker, victor, visit):
    worker.takes("deploy/api", owner="deploybot", request_id="deploy-request-1")
    worker.takes("other", owner="someone")
    issue(space, "deploy-ci", "locks:read")
    found = links(visit(victor).get(URL, {"q": "deploy"}))
    public_id = space.tokens.get(name="deploy-ci").public_id
    assert found == [
        "/ui/blue/main/locks/deploy/api",
        "/ui/blue/main/owners?q=deploybot",
        f"/ui/blue/main/tokens?q={public_id}",
    ]
    assert links(visit(victor).get(URL, {"q": public_id[:6]})) == [f"/ui/blue/main/tokens?q={public_id}"]
    request_id = Event.objects.get(lock_name="deploy/api", kind="acquired").request_id
    assert links(visit(victor).get(URL, {"q": request_id})) == [f"/ui/blue/main/activity?request={request_id}"]


def test_pages_are_found_by_label_and_space_and_those_for_admins_by_admins(space, blue, victor, alice, visit):
    Space.objects.create(team=blue, slug="staging", name="Staging")
    assert links(visit(victor).get(URL, {"q": "stuck stag"})) == ["/ui/blue/staging/stuck"]
    assert links(visit(victor).get(URL, {"q": "webhooks"})) == []
    assert "/ui/blue/main/webhooks" in links(visit(alice).get(URL, {"q": "webhooks"}))


def test_the_space_one_is_in_comes_first(space, blue, victor, visit):
    Space.objects.create(team=blue, slug="staging", name="Staging")
    browser = visit(victor)
    assert links(browser.get(URL, {"q": "owners", "space": "blue/staging"}))[0] == "/ui/blue/staging/owners"
    assert links(browser.get(URL, {"q": "owners", "space": "blue/main"}))[0] == "/ui/blue/main/owners"
    assert all(link.startswith("/ui/blue/staging/") for link in links(browser.get(URL, {"space": "blue/staging"})))


def test_things_of_other_teams_never_appear(space, red_space, red_worker, victor, root, visit):
    held = red_worker.takes("red/secret", owner="redbot", request_id="red-request-1")
    public_id = red_space.tokens.get(name="deployer").public_id
    request_id = Event.objects.get(space_id=red_space.pk, fencing_token=held.fencing_token).request_id
    for text in ("red", "redbot", "deployer", public_id, request_id):
        assert links(visit(victor).get(URL, {"q": text, "space": "red/main"})) == [], text
        assert links(visit(root).get(URL, {"q": text})), text


def test_only_signed_in_users_search(space):
    assert Client().get(URL).status_code == 302


def test_the_secret_of_a_token_does_not_stay_in_the_address(space, worker_token, victor, visit):
    reply = visit(victor).get(URL, {"q": f"Bearer {worker_token}"})
    public_id = worker_token.split("_")[1]
    assert reply["Location"] == f"{URL}?q={public_id}&space="
    assert links(visit(victor).get(reply["Location"])) == [f"/ui/blue/main/tokens?q={public_id}"]


@pytest.mark.parametrize("text", ["", "%", "_", "' OR 1=1 --", "\U0010ffff", "a" * 400, "\x00"])
def test_any_text_is_answered(text, space, worker, victor, visit):
    worker.takes("job")
    assert visit(victor).get(URL, {"q": text}).status_code == 200


def test_the_palette_gets_options_and_the_page_links(space, victor, visit):
    reply = visit(victor).get(URL, {"q": "stuck"}, headers={"HX-Request": "true", "HX-Target": "palette-results"})
    assert 'role="option"' in reply.text
    assert "<html" not in reply.text
    assert 'role="option"' not in visit(victor).get(URL, {"q": "stuck"}).text


@pytest.mark.parametrize("spaces", [1, 20])
def test_one_query_searches_all_spaces(spaces, space, blue, worker, victor, visit, django_assert_num_queries):
    for number in range(spaces):
        Space.objects.create(team=blue, slug=f"s{number}", name=f"Space {number}")
    worker.takes("job")
    browser = visit(victor)
    with django_assert_num_queries(QUERY_COUNTS["search"]):
        browser.get(URL, {"q": "job"})


def test_names_tokens_and_requests_are_found_by_index(space):
    """In an empty table the planner takes any index that serves a condition; of tokens, that of texts is the best."""
    names = [f"{number:012}" for number in range(500)]
    Token.objects.bulk_create(
        Token(space=space, name=name, public_id=name, digest=name.encode(), scopes=["locks:read"]) for name in names
    )
    sql = (Path(queries.__file__).parent / "search.sql").read_text()
    parameters = {
        "space_ids": [space.pk], "text": "job", "beyond": "job~", "each": 5, "rows": 12, "scanned": 10,
        "request_id": "req_1",
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE octo_token")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("DROP INDEX event_of_space, event_of_lock, event_of_kind")
        cursor.execute(f"EXPLAIN {sql}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    for condition in (
        r"name >= 'job'",
        r"\(name\)::text ~>=~ 'job'",
        r"\(public_id\)::text ~>=~ 'job'",
        "request_id = 'req_1'",
    ):
        assert re.search(rf"Index Cond: .*{condition}", plan), condition
