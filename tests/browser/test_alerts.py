"""An alert rule in a real browser: created, and tested against a receiver on loopback, with its result on the page."""

from collections.abc import Iterator
from ipaddress import ip_network

import pytest
from playwright.sync_api import Page, expect

from locks.engine.execution import run
from locks.events.webhooks.delivery_pool import deliver
from locks.events.webhooks.outbox import claim
from locks.models import Delivery
from tests.browser.visitors import log_in
from tests.locks.events.webhooks.receiver import Receiver, receiving
from tests.polling import until
from tests.servers import RunningServer, SharedServers

pytestmark = pytest.mark.timeout(180)

LOOPBACK = "127.0.0.0/8"


@pytest.fixture
def receiver(settings) -> Iterator[Receiver]:
    settings.WEBHOOK_NETWORKS = [ip_network(LOOPBACK)]
    with receiving() as running:
        yield running


@pytest.fixture(scope="module")
def port(shared_servers: SharedServers) -> int:
    return shared_servers.get(OCTO_WEBHOOK_NETWORKS=LOOPBACK).port


@pytest.fixture
def server(committed: None, shared_servers: SharedServers, alice, space) -> Iterator[RunningServer]:
    with shared_servers.used(OCTO_WEBHOOK_NETWORKS=LOOPBACK) as running:
        yield running


def test_an_admin_creates_a_rule_and_sees_what_became_of_a_test(page: Page, receiver: Receiver) -> None:
    log_in(page, "alice", "/ui/blue/main/alerts")
    expect(page.get_by_text("No alert rules yet")).to_be_visible()
    page.get_by_role("link", name="New rule").click()
    page.get_by_label("Name", exact=True).fill("On call")
    page.get_by_label("URL or addresses").fill(f"{receiver.url}/slack")
    page.get_by_role("button", name="Create rule").click()
    expect(page.get_by_role("heading", name="On call")).to_be_visible()
    expect(page.get_by_text("No messages yet")).to_be_visible()
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_text("Queued")).to_be_visible()
    # As the worker does.
    until(Delivery.objects.exists, "the test is stored")
    claimed = run(claim())
    assert claimed is not None
    deliver(claimed)
    expect(page.locator("td").get_by_text("Delivered")).to_be_visible()
    (received,) = receiver.at("/slack")
    assert received.json["text"] == "Test message · Blue / Main"
    page.get_by_role("link", name="Delete…").click()
    page.get_by_role("button", name="Delete alert rule").click()
    expect(page.get_by_text("No alert rules yet")).to_be_visible()
