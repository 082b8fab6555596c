"""The documentation at /help/."""

import base64
import hashlib

import pytest
from django.test import Client


@pytest.fixture
def site(settings, tmp_path):
    settings.HELP_DIR = tmp_path / "help"
    settings.HELP_DIR.mkdir()
    (tmp_path / "secret.txt").write_text("not part of the site")
    return settings.HELP_DIR


def test_a_page_may_run_its_own_inline_scripts_only(site):
    (site / "index.html").write_text("<script>show()</script>")
    response = Client().get("/help/index.html")
    assert response.getvalue() == b"<script>show()</script>"
    digest = base64.b64encode(hashlib.sha256(b"show()").digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in response["Content-Security-Policy"]
    assert Client().get("/help/")["Location"] == "/help/index.html"


def test_files_outside_the_site_are_refused(site):
    (site / "index.html").write_text("")
    assert Client().get("/help/../secret.txt").status_code == 400
    assert Client().get("/help/%2e%2e/secret.txt").status_code == 400
    assert Client().get("/help/missing.html").status_code == 404


def test_a_site_that_was_not_built_says_how_to_build_it(site):
    response = Client().get("/help/")
    assert (response.status_code, response.content) == (
        404,
        b"The documentation has not been built: run `make docs`.",
    )
