"""Hooks in a real git repository, with FakeServer behind a port."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from octo.testing import FakeServer
from tests.client.guides import blocks
from tests.client.served_fake import served

OCTO = Path(sys.executable).parent / "octo"


@dataclass
class Workplace:
    """A shell in a repository."""

    fake: FakeServer
    top: Path
    environment: dict[str, str]

    def run(self, lines: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-u"], input=lines, env={**self.environment, **variables}, cwd=self.top, capture_output=True,
            text=True, check=False, timeout=150,
        )  # fmt: skip

    def ok(self, lines: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        done = self.run(f"set -e\n{lines}", **variables)
        assert done.returncode == 0, done.stderr
        return done

    def change(self, file: str, text: str = "changed\n") -> None:
        path = self.top / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, *, code: int = 0, **variables: str) -> "subprocess.CompletedProcess[str]":
        done = self.run("git add -A && git commit -qm change", **variables)
        assert done.returncode == code, done.stderr
        return done

    @property
    def commits(self) -> int:
        return len(self.ok("git log --format=%h 2>/dev/null || true").stdout.splitlines())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    fake = FakeServer(tokens={"a": ["locks:read", "locks:write"], "b": ["locks:read", "locks:write"]})
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "octo").symlink_to(OCTO)
    top = tmp_path / "repository"
    top.mkdir()
    (tmp_path / "gitconfig").write_text("[user]\nname = Anna\nemail = anna@example.com\n[init]\ndefaultBranch = main\n")
    with served(fake) as url:
        place = Workplace(fake, top, {
            **os.environ, "OCTO_URL": url, "OCTO_TOKEN": "a", "PATH": f"{binaries}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(tmp_path / "state"), "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
            "GIT_CONFIG_SYSTEM": os.devnull,
        })  # fmt: skip
        place.ok("git init -q .")
        yield place


def test_the_hooks_ask_the_real_server(place, backend, operator, no_namespaced_leases):
    """Its policy is to warn, which is the default."""
    place.environment |= backend.environment
    place.ok("octo hook install")
    theirs = operator.acquire("path:src", owner="berta")
    place.change("src/auth.rs")
    warned = place.commit()
    assert "path:src/auth.rs overlaps path:src, held by berta" in warned.stdout + warned.stderr
    place.ok("octo init --policy require --space blue/main; rm AGENTS.md")
    place.change("src/auth.rs", "again\n")
    assert "held by berta" in place.commit(code=1).stderr
    theirs.release()
    assert "octo lock acquire path:src/auth.rs" in place.commit(code=1).stderr
    place.ok("octo lock acquire path:./src/\ngit commit -qm covered\nocto lock release path:src")
    assert place.commits == 2


@pytest.fixture
def hooked(place: Workplace) -> Workplace:
    place.ok("octo hook install")
    return place


def test_a_commit_is_blocked_without_a_lease_where_one_is_required(hooked):
    hooked.fake.lock_policy = "require"
    hooked.change("src/auth.rs")
    refused = hooked.commit(code=1)
    assert "Error: A lock is required." in refused.stderr
    assert "octo lock acquire path:src/auth.rs --ttl 30m" in refused.stderr
    assert hooked.commits == 0
    done = hooked.ok("octo lock acquire path:src --ttl 30m\ngit commit -qm change\nocto lock release path:src")
    assert "Lock released" in done.stdout
    assert hooked.commits == 1


def test_a_lease_of_another_job_does_not_cover(hooked):
    hooked.fake.lock_policy = "require"
    hooked.change("src/auth.rs")
    hooked.ok("octo lock acquire path:src --owner other", OCTO_HOLDER="other job")
    refused = hooked.commit(code=1)
    assert "path:src/auth.rs overlaps path:src, held by other" in refused.stderr
    assert hooked.commit(OCTO_HOLDER="other job").returncode == 0


def test_a_command_under_octo_run_is_covered(hooked):
    hooked.fake.lock_policy = "require"
    hooked.change("src/auth.rs")
    hooked.ok("git add -A; octo run path:src -- git commit -qm change")
    assert hooked.commits == 1


def test_a_commit_is_warned_about_others(hooked):
    with hooked.fake.client("b") as other:
        other.acquire("path:src", owner="berta")
        hooked.change("src/auth.rs")
        hooked.change("docs/guide.md")
        warned = hooked.commit()
        assert "Warning: others hold locks here" in warned.stdout + warned.stderr
        assert "path:src/auth.rs overlaps path:src, held by berta" in warned.stdout + warned.stderr
        assert hooked.commits == 1
    hooked.fake.lock_policy = "off"
    hooked.change("src/auth.rs", "again\n")
    assert "Warning" not in (done := hooked.commit()).stdout + done.stderr
    assert hooked.commits == 2


@pytest.mark.parametrize(
    ("file", "space", "expected"),
    [
        ("require", "off", "block"), ("require", "warn", "block"), ("off", "require", "block"), ("warn", "off", "warn"),
        ("off", "warn", "warn"), ("off", "off", "clear"), (None, "require", "block"), (None, "off", "clear"),
    ],
)  # fmt: skip
def test_the_stricter_policy_counts(hooked, file, space, expected):
    hooked.fake.lock_policy = space
    if file:
        hooked.ok(f"octo init --policy {file}")
    with hooked.fake.client("b") as other:
        other.acquire("path:src", owner="berta")
        hooked.change("src/auth.rs")
        done = hooked.commit(code=1 if expected == "block" else 0)
    assert ("Warning" in done.stdout + done.stderr) is (expected == "warn")


@pytest.mark.parametrize("policy", [None, "off", "warn", "require"])
def test_with_the_server_out_of_reach(hooked, policy):
    if policy:
        hooked.ok(f"octo init --policy {policy}")
    hooked.change("src/auth.rs")
    done = hooked.commit(code=1 if policy == "require" else 0, OCTO_URL="http://127.0.0.1:1")
    if policy == "require":
        assert "Locks could not be checked, and this repository requires them." in done.stderr
        assert "git commit --no-verify" in done.stderr
        hooked.ok("git commit -qm change --no-verify")
    else:
        assert ("Warning: locks were not checked" in done.stderr) is (policy != "off")


@pytest.mark.parametrize("policy", ["warn", "require"])
def test_without_octo(hooked, policy):
    hooked.ok(f"octo init --policy {policy}")
    hooked.change("src/auth.rs")
    path = ":".join(part for part in os.environ["PATH"].split(":") if not (Path(part) / "octo").exists())
    assert shutil.which("octo", path=path) is None
    done = hooked.commit(code=1 if policy == "require" else 0, PATH=path)
    assert "octo is not installed" in done.stderr


def test_files_with_any_name_renames_and_deletions_are_checked(hooked):
    hooked.change("src/[id]/a b.ts", "one\ntwo\nthree\n")
    hooked.change("gone.txt")
    hooked.commit()
    hooked.fake.lock_policy = "require"
    hooked.ok("git mv 'src/[id]' moved; git rm -q gone.txt")
    refused = hooked.commit(code=1).stderr
    for name in ("path:src/=5Bid=5D/a=20b.ts", "path:moved/a=20b.ts", "path:gone.txt"):
        assert f"octo lock acquire {name} " in refused
    hooked.change("sub/x")
    hooked.ok("octo lock acquire path:\ncd sub\ngit add -A ..\ngit commit -qm 'from a folder'")


def test_only_what_is_committed_is_checked(hooked):
    hooked.change("a.txt")
    hooked.change("b.txt")
    hooked.commit()
    hooked.fake.lock_policy = "require"
    hooked.change("a.txt", "2\n")
    hooked.change("b.txt", "2\n")
    hooked.ok("octo lock acquire path:a.txt\ngit commit -qm only-a a.txt")
    assert hooked.commits == 2


def test_a_push_checks_the_commits_that_the_remote_does_not_have(hooked, tmp_path):
    hooked.ok(f"git init -q --bare {tmp_path}/remote.git; git remote add origin {tmp_path}/remote.git")
    hooked.change("old.txt")
    hooked.commit()
    hooked.ok("git push -q -u origin main")
    hooked.change("new.txt")
    hooked.commit()
    hooked.change("new.txt", "undone\n")
    hooked.change("other.txt")
    hooked.commit()
    hooked.fake.lock_policy = "require"
    refused = hooked.run("git push -q")
    assert refused.returncode != 0
    for file, listed in (("new.txt", True), ("other.txt", True), ("old.txt", False)):
        assert (f"path:{file} is not covered" in refused.stderr) is listed
    hooked.ok("octo acquire-all path:new.txt path:other.txt\ngit push -q")
    hooked.ok("git push -q origin main:feature && git push -q origin --delete feature")


def test_an_existing_hook_is_kept_and_called(place, tmp_path):
    remote = tmp_path / "remote.git"
    hooks = place.top / ".git" / "hooks"
    place.ok(f"git init -q --bare {remote}; git remote add origin {remote}")
    for hook in ("pre-commit", "pre-push"):
        (hooks / hook).write_text(f"#!/bin/sh\ncat >> {tmp_path}/{hook}.input\nexit ${{FAIL:-0}}\n")
        (hooks / hook).chmod(0o755)
    before = (hooks / "pre-commit").read_text()
    place.ok("octo hook install")
    place.ok("octo hook install")
    place.change("x")
    place.commit(code=1, FAIL="3")
    place.commit()
    place.ok("git push -q origin main")
    assert "refs/heads/main" in (tmp_path / "pre-push.input").read_text()
    assert (tmp_path / "pre-commit.input").exists()
    place.fake.lock_policy = "require"
    place.change("y")
    place.commit(code=1)
    place.ok("octo hook uninstall")
    assert (hooks / "pre-commit").read_text() == before
    assert sorted(path.name for path in hooks.iterdir() if not path.name.endswith(".sample")) == [
        "pre-commit",
        "pre-push",
    ]
    place.commit()


def test_uninstalling_leaves_foreign_hooks_alone(place):
    hook = place.top / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\n")
    assert place.ok("octo hook uninstall pre-commit").stdout == "No hook was installed.\n"
    assert hook.exists()
    assert place.run("octo hook install commit-msg").returncode == 2
    assert place.run("cd / && octo hook install").returncode == 5


def test_init_is_idempotent(place):
    agents = place.top / "AGENTS.md"
    agents.write_text("# Agents\n\nBe kind.\n")
    place.ok("octo init --prefix acme/app --space fake/fake")
    first = agents.read_text()
    assert first.startswith("# Agents\n\nBe kind.\n\n<!-- octo: begin")
    assert "octo lock acquire path:acme/app/src/auth.rs --ttl 30m" in first
    for word in ("**Claim**", "**Renew**", "**Release**", "**Yield**"):
        assert word in first
    agents.write_text(f"{first}\nMore.\n")
    place.ok("octo init --policy require")
    assert agents.read_text() == f"{first}\nMore.\n"
    told = json.loads(place.ok("octo init --json").stdout)["data"]
    assert (told["lock_policy"], told["prefix"], told["space"]) == ("require", "acme/app", "fake/fake")


def test_the_prefix_and_the_space_are_used(hooked):
    hooked.ok("octo init --policy require --prefix acme/app --space fake/fake; rm AGENTS.md")
    hooked.change("x")
    assert "octo lock acquire path:acme/app/x " in hooked.commit(code=1).stderr
    hooked.ok("octo lock acquire path:acme/app\ngit commit -qm x")
    hooked.ok("octo init --space blue/main; rm AGENTS.md")
    hooked.change("y")
    assert "the token belongs to fake/fake" in hooked.commit(code=1).stderr


@pytest.mark.parametrize("content", ['lock_policy = "maybe"', "lock_policy = 1", "lock_policy", 'policy = "warn"'])
def test_a_config_that_cannot_be_understood_blocks(hooked, content):
    (hooked.top / ".git" / "octo").mkdir()
    (hooked.top / ".git" / "octo" / "config.toml").write_text(content)
    hooked.change("x")
    assert "config.toml" in hooked.commit(code=1).stderr


@pytest.mark.timeout(180)
def test_the_guide(place):
    place.change("src/main.rs")
    place.ok("git add -A; git commit -qm first")
    text = "\n".join(blocks("git.md", "sh"))
    done = place.ok(text)
    assert "blocked: no lease" in done.stdout
    assert "Lock acquired" in done.stdout
    assert place.commits == 3
    (config,) = blocks("git.md", "toml")
    (place.top / ".git" / "octo" / "config.toml").write_text(config.replace("blue/main", "fake/fake"))
    assert place.ok("octo lock check path:src").stdout == "Clear\n"


def test_alias_grite(place):
    done = place.ok(
        "shopt -s expand_aliases\nalias grite=octo\ngrite lock acquire --resource repo:deploy --ttl 30m\n"
        "grite lock status\ngrite lock release --resource repo:deploy\ngrite lock gc"
    )
    assert "Lock released" in done.stdout
