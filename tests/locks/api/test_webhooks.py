"""Webhooks through the API: their life, their deliveries, and who may not touch them."""

import pytest

from locks.models import Delivery, Event, Webhook
from locks.services import webhooks
from tests.conftest import issue

pytestmark = pytest.mark.django_db

URL = "https://hooks.example/in"


@pytest.fixture
def manager(space) -> str:
    return issue(space, "manager", "webhooks:manage")


@pytest.fixture
def hook(call, manager) -> dict:
    return call("POST", "/webhooks", {"url": URL, "kinds": ["expired"], "prefix": "jobs/"}, token=manager).json()


def kinds() -> list[str]:
    return list(Event.objects.filter(kind__startswith="webhook").order_by("id").values_list("kind", flat=True))


def test_a_webhook_from_creation_to_deletion(call, manager, space) -> None:
    made = call("POST", "/webhooks", {"url": URL, "kinds": ["expired", "expired"], "prefix": "jobs/"}, token=manager)
    assert (made.status_code, made["Cache-Control"]) == (201, "no-store")
    hook = made.json()
    assert hook["secret"].startswith("whsec_")
    path = f"/webhooks/{hook['id']}"
    shown = call("GET", path, token=manager).json()
    assert shown == {**hook, "secret": "****"}
    assert (shown["kinds"], shown["prefix"], shown["paused"], shown["created_by"]) == (
        ["expired"], "jobs/", False, "manager",
    )  # fmt: skip
    assert call("GET", "/webhooks", token=manager).json() == {"webhooks": [shown]}
    changed = call("PATCH", path, {"url": URL + "/2", "kinds": [], "paused": True}, token=manager).json()
    assert (changed["url"], changed["kinds"], changed["prefix"], changed["paused"]) == (URL + "/2", [], "jobs/", True)
    assert call("PATCH", path, {"paused": False}, token=manager).json()["paused"] is False
    rotated = call("POST", f"{path}/rotate-secret", {"overlap_seconds": 60}, token=manager)
    assert rotated.json()["secret"] not in ("", hook["secret"])
    assert rotated["Cache-Control"] == "no-store"
    assert call("DELETE", path, token=manager).status_code == 204
    assert call("GET", path, token=manager).status_code == 404
    assert kinds() == [
        "webhook_created", "webhook_changed", "webhook_paused", "webhook_resumed", "webhook_secret_rotated",
        "webhook_deleted",
    ]  # fmt: skip
    event = Event.objects.filter(kind="webhook_created").get()
    assert (event.actor_name, event.detail["url"]) == ("manager", URL)
    assert hook["secret"] not in str(list(Event.objects.values()))


def test_a_test_its_delivery_and_a_replay(call, manager, hook) -> None:
    path = f"/webhooks/{hook['id']}"
    sent = call("POST", f"{path}/test", token=manager)
    assert (sent.status_code, sent.json()["event"], sent.json()["status"]) == (202, "test", "pending")
    whole = call("GET", f"{path}/deliveries?status=pending&limit=1", token=manager).json()
    assert whole == {"deliveries": [sent.json()], "next_cursor": None}
    second = call("POST", f"{path}/test", token=manager)
    page = call("GET", f"{path}/deliveries?status=pending&limit=1", token=manager).json()
    assert page["deliveries"] == [second.json()]
    older = call("GET", f"{path}/deliveries?cursor={page['next_cursor']}", token=manager).json()
    assert older == whole
    Delivery.objects.filter(public_id=second.json()["id"]).delete()
    replay = f"{path}/deliveries/{sent.json()['id']}/replay"
    assert call("POST", replay, token=manager).status_code == 409
    Delivery.objects.update(status="dead", finished_at="2026-01-01T00:00Z")
    assert call("POST", replay, token=manager).json() == {"replayed": 1}
    Delivery.objects.update(status="dead", finished_at="2026-01-01T00:00Z")
    assert call("POST", f"{path}/replay", token=manager).json() == {"replayed": 1}
    assert kinds()[1:] == ["webhook_tested", "webhook_tested", "webhook_replayed", "webhook_replayed"]


def test_tokens_without_permission_are_refused(call, hook, space, red_space) -> None:
    paths = ["/webhooks", *(f"/webhooks/{hook['id']}{rest}" for rest in ("", "/deliveries"))]
    observer, stranger = (
        issue(space, "observer", "locks:read", "audit:read"),
        issue(red_space, "red", "webhooks:manage"),
    )
    for path in paths:
        assert call("GET", path, token=None).status_code == 401
        assert call("GET", path, token=observer).json()["details"] == "The token lacks the scope 'webhooks:manage'."
    assert call("GET", "/webhooks", token=stranger).json() == {"webhooks": []}
    for method, path in [
        ("GET", paths[1]), ("PATCH", paths[1]), ("DELETE", paths[1]), ("GET", paths[2]), ("POST", paths[1] + "/test"),
        ("POST", paths[1] + "/replay"), ("POST", paths[1] + "/rotate-secret"),
    ]:  # fmt: skip
        assert call(method, path, token=stranger).json()["code"] == "not_found"
    assert Webhook.objects.count() == 1


def test_a_token_bound_to_prefixes_stays_within_them(call, hook, space) -> None:
    bound = issue(space, "bound", "webhooks:manage", prefixes=["other/"])
    assert call("GET", "/webhooks", token=bound).json() == {"webhooks": []}
    assert call("GET", f"/webhooks/{hook['id']}", token=bound).status_code == 404
    assert call("POST", "/webhooks", {"url": URL}, token=bound).json()["code"] == "forbidden"
    own = call("POST", "/webhooks", {"url": URL, "prefix": "other/x"}, token=bound).json()
    assert call("PATCH", f"/webhooks/{own['id']}", {"prefix": ""}, token=bound).json()["code"] == "forbidden"


@pytest.mark.parametrize(
    "body",
    [
        {}, {"url": "ftp://example.com"}, {"url": "http://127.0.0.1/"}, {"url": "http://[fe80::1]/"},
        {"url": "http://169.254.169.254/latest"}, {"url": "https://a:b@example.com"}, {"url": ""},
        {"url": URL, "kinds": ["renewed"]}, {"url": URL, "prefix": "a\0"}, {"url": URL, "prefix": "x" * 300},
    ],
)  # fmt: skip
def test_an_invalid_target_is_refused(call, manager, body) -> None:
    refused = call("POST", "/webhooks", body, token=manager)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    assert not Webhook.objects.exists()


def test_the_number_of_webhooks_is_limited(call, manager, hook, monkeypatch) -> None:
    monkeypatch.setattr(webhooks, "MAX_WEBHOOKS_PER_SPACE", 1)
    assert call("POST", "/webhooks", {"url": URL}, token=manager).json()["code"] == "conflict"


@pytest.mark.parametrize("query", ["status=lost", "limit=0", "limit=101", "cursor=x"])
def test_invalid_parameters_of_the_deliveries_are_refused(call, manager, hook, query) -> None:
    assert call("GET", f"/webhooks/{hook['id']}/deliveries?{query}", token=manager).status_code == 422
