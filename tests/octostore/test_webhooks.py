"""Webhooks on OctoStore's terms."""

import hashlib
import hmac
from uuid import UUID

import pytest

from locks.engine.execution import run
from locks.events.webhooks.encryption import decrypt
from locks.events.webhooks.outbox import fan_out
from locks.events.webhooks.payloads import encode_body, sign
from locks.models import Delivery, Webhook
from tests.conftest import issue
from tests.locks.events.open_transactions import wait_for_open_transactions

pytestmark = pytest.mark.usefixtures("each_path")

URL = "https://hooks.example/in"


@pytest.fixture
def manager(each_path, space) -> str:
    return issue(space, "manager", "webhooks:manage")


@pytest.fixture
def create(call, manager):
    return lambda **fields: call("POST", "/webhooks", {"url": URL, **fields}, token=manager)


@pytest.mark.usefixtures("either_terms")
def test_the_response_has_octostores_fields(create, call, manager):
    made = create(events=["acquired", "released"], lock_pattern="service/*", secret="mine")
    assert made.status_code == 201
    webhook = made.json()
    assert UUID(webhook["id"]).version == 4
    assert UUID(webhook["user_id"]).version == 8
    assert (webhook["url"], webhook["secret"], webhook["active"]) == (URL, "****", True)
    assert (webhook["events"], webhook["lock_pattern"]) == (["acquired", "released"], "service/*")
    assert "mine" not in made.content.decode()
    assert decrypt(Webhook.objects.get().secret) == "mine"
    assert create().json()["events"] == ["*"]
    assert call("DELETE", f"/webhooks/{webhook['id']}", token=manager).status_code == 204


def test_the_list_is_an_array_on_octostores_terms(create, call, manager, compatible):
    made = create(secret="mine").json()
    assert call("GET", "/webhooks", token=manager).json() == [made]


def test_and_an_object_on_ours(create, call, manager):
    made = create(secret="mine").json()
    assert call("GET", "/webhooks", token=manager).json() == {"webhooks": [made]}


@pytest.mark.usefixtures("either_terms")
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"events": ["renewed"]}, 400), ({"events": ["acquired", "renewed"]}, 400), ({"events": ["unknown"]}, 422),
        ({"events": ["acquired"], "kinds": ["expired"]}, 400), ({"lock_pattern": "a[bc]"}, 400),
        ({"lock_pattern": "{a,b}"}, 400), ({"lock_pattern": "a b"}, 400), ({"lock_pattern": ""}, 422),
        ({"secret": ""}, 422), ({"secret": "a\0b"}, 422), ({"secret": 7}, 422),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused(create, fields, status):
    refused = create(**fields)
    assert (refused.status_code, refused.json()["code"]) == (status, "invalid_input")
    assert not Webhook.objects.exists()


@pytest.mark.parametrize("fields", [{"events": ["acquired"]}, {"lock_pattern": "b*"}, {"secret": "other"}])
def test_a_change_does_not_ignore_them_either(create, call, manager, fields):
    webhook = create(lock_pattern="a*", secret="mine").json()
    refused = call("PATCH", f"/webhooks/{webhook['id']}", fields, token=manager)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_input")


def test_a_token_bound_to_prefixes_needs_a_pattern_within_them(call, each_path, space):
    bound = issue(space, "bound", "webhooks:manage", prefixes=["jobs/"])
    for pattern in ("*", "job*", "other/*"):
        refused = call("POST", "/webhooks", {"url": URL, "lock_pattern": pattern}, token=bound)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert call("POST", "/webhooks", {"url": URL, "lock_pattern": "jobs/*"}, token=bound).status_code == 201


class TestDeliveries:
    """After a commit: the outbox reads committed events only."""

    @pytest.fixture
    def delivered(self, committed, space, operator_token, create, call):
        def deliver(names: list[str], **fields) -> list[str | None]:
            create(**fields)
            for name in names:
                lease = call("POST", f"/locks/{name}/acquire").json()
                call("POST", f"/locks/{name}/release", {"lease_id": lease["lease_id"]})
            wait_for_open_transactions()
            run(fan_out())
            return list(Delivery.objects.order_by("id").values_list("kind", "lock_name"))

        return deliver

    @pytest.mark.parametrize("each_path", ["fast path"], indirect=True)
    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            ("service/*", ["service/a", "service/b/c"]),
            ("*/a", ["service/a"]),
            ("service/?", ["service/a"]),
            ("ser_ice/a", []),
            ("other", ["other"]),
            ("*", ["service/a", "service/b/c", "other"]),
        ],
    )
    def test_only_names_that_match_the_pattern(self, delivered, pattern, expected):
        names = ["service/a", "service/b/c", "other"]
        assert delivered(names, lock_pattern=pattern, events=["acquired"]) == [("acquired", name) for name in expected]

    @pytest.mark.parametrize("each_path", ["fast path"], indirect=True)
    def test_only_the_events_asked_for_signed_with_the_callers_secret(self, delivered):
        assert delivered(["a"], events=["released"], secret="mine") == [("released", "a")]
        delivery = Delivery.objects.select_related("webhook").get()
        body = encode_body(delivery)
        secret = decrypt(delivery.webhook.secret)
        headers = sign(delivery, secret=secret, previous_secret=None, timestamp=1794812240, body=body)
        assert b'"event":"released","lock":"a","timestamp":"' in body
        assert headers["X-OctoStore-Signature"] == "sha256=" + hmac.new(b"mine", body, hashlib.sha256).hexdigest()
        timestamped = hmac.new(b"mine", b"1794812240." + body, hashlib.sha256).hexdigest()
        assert headers["X-Octo-Signature"] == f"t=1794812240,v1={timestamped}"
