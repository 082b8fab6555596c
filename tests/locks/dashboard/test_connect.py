"""Connect: lines to paste for this host, and the news of the first lease."""

import re

import pytest

from locks.token_format import parse

pytestmark = pytest.mark.django_db


def test_the_snippets_name_this_host_and_contain_no_secret(space, worker_token, visit, victor, now_url):
    content = visit(victor).get(now_url + "connect", headers={"Host": "localhost:8000"}).content.decode()
    assert "export OCTO_URL=http://localhost:8000" in content
    assert "curl -X POST &quot;http://localhost:8000/locks/hello-world/acquire&quot;" in content
    assert "OCTO_ALLOW_HTTP" not in content
    assert "${{ secrets.OCTO_TOKEN }}" in content
    assert "&quot;url&quot;: &quot;http://localhost:8000/mcp&quot;" in content
    assert "&quot;command&quot;: &quot;octo&quot;" in content
    assert "Bearer octo_…" in content
    assert worker_token not in content
    assert not [found for found in re.findall(r"octo_\w+", content) if parse(found)]


def test_the_snippet_for_plain_http_warns(space, settings, visit, victor, now_url):
    settings.ALLOWED_HOSTS = ["octo.example.com"]
    path = now_url + "connect"
    plain = visit(victor).get(path, headers={"Host": "octo.example.com"}).content.decode()
    assert "export OCTO_ALLOW_HTTP=1" in plain
    secure = visit(victor).get(path, headers={"Host": "octo.example.com"}, secure=True).content.decode()
    assert "export OCTO_URL=https://octo.example.com" in secure
    assert "OCTO_ALLOW_HTTP" not in secure


def test_it_waits_for_the_first_lease_and_announces_it(worker, visit, victor, now_url):
    browser = visit(victor)
    fragment = {"HX-Request": "true", "HX-Target": "live-content"}
    assert "Waiting for the first lease" in browser.get(now_url + "connect", headers=fragment).content.decode()
    worker.takes("hello-world", owner="my-laptop")
    first = browser.get(now_url + "connect", headers=fragment).content.decode()
    assert "First lease received" in first
    assert "<b><bdi>my-laptop</bdi></b>" in first
    worker.takes("another")
    assert "This space is connected" in browser.get(now_url + "connect", headers=fragment).content.decode()


def test_others_find_nothing(space, visit, bob, now_url):
    assert visit(bob).get(now_url + "connect").status_code == 404
