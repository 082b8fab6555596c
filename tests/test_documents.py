"""What the documents tell people to type works when they type it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import issue

PROJECT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Start the product or this very suite; they have tests of their own.
NOT_HERE = ("make up", "make test")
DOCUMENTS = sorted(
    path.relative_to(PROJECT).as_posix()
    for folder in (".", "docs", "docs/decisions")
    for path in PROJECT.glob(f"{folder}/*.md")
)

SCOPES = ("locks:read", "locks:write", "webhooks:manage")

pytestmark = pytest.mark.timeout(120)


def script(document: str) -> str:
    blocks = BLOCK.findall((PROJECT / document).read_text())
    return "\n".join(block for block in blocks if not block.startswith(NOT_HERE))


def run(text: str, *, url: str, token: str) -> str:
    text = text.replace("http://127.0.0.1:8000", url).replace("octo_…", token)
    text = text.replace("python manage.py", f"{sys.executable} manage.py").replace("--team demo", "--team blue")
    done = subprocess.run(
        ["bash", "-euo", "pipefail"], input=text, env=os.environ | {"OCTO_TOKEN": token}, cwd=PROJECT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_tour_of_the_readme(server, space):
    printed = run(script("README.md"), url=server.url, token=issue(space, "first-worker", "locks:read", "locks:write"))
    assert re.findall(r'"status":"(\w+)"', printed) == ["acquired", "held", "held", "held"]
    assert "null" in printed
    assert '"error"' not in printed
    assert '"owner":"agent-7"' in printed


GUIDES = ["dashboard", "leases", "operation", "people", "tokens", "watching", "webhooks"]


@pytest.mark.parametrize("document", [f"docs/{guide}.md" for guide in GUIDES])
def test_the_guides(server, space, document):
    printed = run(script(document), url=server.url, token=issue(space, "worker", *SCOPES))
    assert printed.strip()
    assert '"error"' not in printed


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    text = (PROJECT / document).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((PROJECT / document).parent / target).exists(), target


def test_the_two_commands_are_the_makefiles():
    readme = (PROJECT / "README.md").read_text()
    makefile = (PROJECT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", readme, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_metrics_that_documents_name_are_there(server):
    offered = server.api().call("GET", "/metrics").content.decode()
    named = {name for path in DOCUMENTS for name in re.findall(r"\boctoadmin_\w+", (PROJECT / path).read_text())}
    assert named
    assert [name for name in sorted(named) if f"# TYPE {name} " not in offered] == []
