"""Errors are pages for people, and the JSON of the contract for programs."""

import pytest

from tests.sample_run import sample_run

pytestmark = pytest.mark.django_db


def test_people_get_a_page_with_the_request_id(client):
    reply = client.get("/ui/no/such/page")
    assert reply.status_code == 404
    assert reply["Content-Type"].startswith("text/html")
    assert reply["X-Request-Id"] in reply.content.decode()
    assert "script-src" not in reply["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["/ui/blue/main/runs/{run}/actors/a%00b/end", "/admin/locks/browsersession/a%00b/change/"]
)
def test_a_name_with_nul_is_not_found(visit, root, space, path):
    reply = visit(root).get(path.format(run=sample_run(space).id))
    assert (reply.status_code, reply["Content-Type"].split(";")[0]) == (404, "text/html")


def test_programs_get_json(client):
    assert client.get("/no/such/path").json()["code"] == "not_found"


def test_an_internal_error_is_a_page_without_its_cause(client, visit, alice, space, monkeypatch, now_url):
    def fails(**_arguments):
        raise RuntimeError("a secret")

    browser = visit(alice)
    browser.raise_request_exception = False
    monkeypatch.setattr("locks.dashboard.now.views.counters", fails)
    reply = browser.get(now_url)
    assert reply.status_code == 500
    assert "Internal error" in reply.content.decode()
    assert "a secret" not in reply.content.decode()


def test_a_browser_that_mistypes_an_address_gets_a_page(client):
    reply = client.get("/lokcs", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (reply.status_code, reply["Content-Type"].split(";")[0]) == (404, "text/html")
    assert client.get("/lokcs", headers={"Accept": "*/*"}).json()["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "person", "reason"),
    [
        (
            "releases/prepare",
            "victor",
            "This needs the operator or admin role in Blue / Main; your role there is viewer.",
        ),
        ("team/activity", "olga", "This needs the admin role in Blue / Main; your role there is operator."),
    ],
)
def test_a_refusal_says_which_role_it_takes(visit, request, space, now_url, path, person, reason):
    browser = visit(request.getfixturevalue(person))
    reply = browser.post(now_url + path) if path == "releases/prepare" else browser.get(now_url + path)
    assert (reply.status_code, reason in reply.content.decode()) == (403, True)
