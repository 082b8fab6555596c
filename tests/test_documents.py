"""The commands, links and names in the documents are right."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from locks.api.errors import Code
from tests.conftest import issue
from tests.servers import running_server

PROJECT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# These start the product or this suite, and have tests of their own.
NOT_RUN = ("make up", "make test")
DOCUMENTS = sorted(
    path.relative_to(PROJECT).as_posix()
    for folder in (".", "docs", "docs/decisions", "docs/how-to")
    for path in PROJECT.glob(f"{folder}/*.md")
)

SCOPES = ("locks:read", "locks:write", "locks:force", "webhooks:manage", "runs:manage")

pytestmark = pytest.mark.timeout(120)


def script(document: str) -> str:
    blocks = BLOCK.findall((PROJECT / document).read_text())
    return "\n".join(block for block in blocks if not block.startswith(NOT_RUN))


def run(text: str, *, url: str, token: str) -> str:
    text = text.replace("http://127.0.0.1:8000", url).replace("octo_…", token)
    text = text.replace("python manage.py", f"{sys.executable} manage.py").replace("--team demo", "--team blue")
    process = subprocess.run(
        ["bash", "-euo", "pipefail"], input=text, env=os.environ | {"OCTO_TOKEN": token}, cwd=PROJECT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_commands_of_the_readme_work(server, space):
    output = run(script("README.md"), url=server.url, token=issue(space, "first-worker", "locks:read", "locks:write"))
    assert re.findall(r'"status":"(\w+)"', output) == ["acquired", "held", "held", "held"]
    assert "null" in output
    assert '"error"' not in output
    assert '"owner":"agent-7"' in output


GUIDES = ["dashboard", "leases", "namespaces", "operation", "people", "runs", "tokens", "watching", "webhooks"]


@pytest.mark.parametrize("document", [f"docs/{guide}.md" for guide in GUIDES])
def test_the_commands_of_the_guides_work(server, space, document):
    output = run(script(document), url=server.url, token=issue(space, "worker", *SCOPES))
    assert output.strip()
    assert '"error"' not in output


def test_the_commands_of_the_elections_guide_work(committed):
    with running_server(os.environ["DATABASE_URL"], OCTO_PUBLIC_ELECTIONS="true") as server:
        output = run(script("docs/elections.md"), url=server.url, token="")
    assert re.findall(r'"status":"(\w+)"', output) == ["follower", "leader", "leader", "vacant"]
    assert '"error"' not in output


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_have_a_target(document):
    text = (PROJECT / document).read_text()
    # docs/generated/ is made by `make docs`, which checks links to it.
    for target in re.findall(r"\]\((?!https?:|generated/)([^)#]+)", text):
        assert ((PROJECT / document).parent / target).exists(), target


def test_the_page_of_errors_lists_every_code_of_the_api():
    listed = re.findall(r"^\| `(\w+)` \| \d{3}", (PROJECT / "docs/errors.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(Code)


def test_the_make_targets_of_the_readme_exist():
    readme = (PROJECT / "README.md").read_text()
    makefile = (PROJECT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", readme, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_metrics_in_documents_exist(server):
    metrics = server.api().call("GET", "/metrics").content.decode()
    named = {name for path in DOCUMENTS for name in re.findall(r"\boctoadmin_\w+", (PROJECT / path).read_text())}
    assert named
    assert [name for name in sorted(named) if f"# TYPE {name} " not in metrics] == []


@pytest.mark.parametrize("document", ["THREAT_MODEL.md", "docs/reliability.md"])
def test_the_tests_that_a_document_cites_exist(document):
    existing = {path.name for path in PROJECT.glob("tests/**/test_*.py")}
    cited = set(re.findall(r"\btest_\w+\.py\b", (PROJECT / document).read_text()))
    assert cited
    assert cited - existing == set()


def test_the_version_is_the_same_everywhere():
    version = re.search(r'^version = "(.+)"$', (PROJECT / "pyproject.toml").read_text(), re.MULTILINE)
    newest = re.search(r"^## (\d\S+)", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert version
    assert newest
    assert settings.VERSION == version[1] == newest[1]


def test_each_threat_names_a_test_that_exists():
    files = {path.name for path in (PROJECT / "tests").rglob("*.py")}
    section = (PROJECT / "THREAT_MODEL.md").read_text().partition("## Threats and defences")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| threat")]
    assert len(rows) > 25
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)`", row.rpartition(" | ")[2])
        assert named, row
        assert {Path(name).name for name in named} <= files, row


def test_the_supported_version_is_this_one():
    table = re.findall(r"^\| (\d+\.\d+) \| (yes|no) \|$", (PROJECT / "SECURITY.md").read_text(), re.MULTILINE)
    assert [version for version, fixes in table if fixes == "yes"] == [settings.VERSION.rpartition(".")[0]]


@pytest.mark.parametrize("document", ["THREAT_MODEL.md", "SECURITY.md"])
def test_the_tests_that_a_document_names_exist(document):
    named = set(re.findall(r"`([\w/]+\.py)`", (PROJECT / document).read_text()))
    existing = {path.relative_to(PROJECT).as_posix() for path in (PROJECT / "tests").rglob("*.py")}
    existing |= {path.rpartition("/")[2] for path in existing}
    assert named - existing == set()


def test_every_threat_has_a_test():
    table = (PROJECT / "THREAT_MODEL.md").read_text().split("## Threats and defences")[1].split("##")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert rows
    assert [row for row in rows if not re.search(r"`[\w/]+\.py` *(, `|\|$)", row)] == []
