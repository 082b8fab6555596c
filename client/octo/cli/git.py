"""octo hook and octo init: a git repository whose changes are checked against locks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

from octo import config, errors, names
from octo.cli.context import connect, saved_leases
from octo.cli.output import Blocked, ExitCode, Output, sanitize, until
from octo.client import Client
from octo.models import LockCheck

POLICIES = ("off", "warn", "require")
HOOKS = ("pre-commit", "pre-push")
MAX_NAMES = 1000
_MARK = "# Installed by `octo hook install`; `octo hook uninstall` removes it."
_SAVED = ".before-octo"
_BEGIN = "<!-- octo: begin, written by `octo init` -->"
_END = "<!-- octo: end -->"


class RepositoryConfig(NamedTuple):
    """.git/octo/config.toml. `prefix` is put before the names of files, where repositories share a space. `space`, as
    team/space, is the one that the token must belong to."""

    lock_policy: str | None = None
    prefix: str = ""
    space: str | None = None


class Repository(NamedTuple):
    top: str
    # Shared by all working trees.
    directory: str
    hooks: str

    @property
    def config_file(self) -> str:
        return os.path.join(self.directory, "octo", "config.toml")

    def config(self) -> RepositoryConfig:
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib

        try:
            with open(self.config_file, "rb") as file:
                content = tomllib.load(file)
        except FileNotFoundError:
            return RepositoryConfig()
        except (OSError, ValueError) as problem:
            raise errors.ConfigurationError(f"{self.config_file} cannot be read: {problem}") from None
        if unknown := set(content) - set(RepositoryConfig._fields):
            raise errors.ConfigurationError(f"{self.config_file} has unknown settings: {', '.join(sorted(unknown))}.")
        if not all(isinstance(value, str) for value in content.values()):
            raise errors.ConfigurationError(f"The settings in {self.config_file} are texts, in quotes.")
        if content.get("lock_policy", "off") not in POLICIES:
            raise errors.ConfigurationError(f"lock_policy in {self.config_file} must be off, warn or require.")
        return RepositoryConfig(**content)


def git(*words: str) -> bytes:
    try:
        return subprocess.run(["git", *words], check=True, capture_output=True).stdout  # noqa: S607
    except FileNotFoundError:
        raise errors.ConfigurationError("git is not installed.") from None
    except subprocess.CalledProcessError as problem:
        message = problem.stderr.decode(errors="replace").strip()
        raise errors.ConfigurationError(f"git {words[0]} failed: {message}") from None


def find_repository() -> Repository:
    what = ("--show-toplevel", "--git-common-dir", "--git-path", "hooks")
    return Repository(*os.fsdecode(git("rev-parse", "--path-format=absolute", *what)).splitlines())


def find_config() -> RepositoryConfig:
    """That of the repository around us; the defaults elsewhere."""
    try:
        repository = find_repository()
    except errors.ConfigurationError:
        return RepositoryConfig()
    return repository.config()


def check_names(client: Client, arguments: Any, wanted: Sequence[str], local: RepositoryConfig) -> LockCheck:
    """By the stricter policy of the space and the repository."""
    if local.space:
        identity = client.whoami()
        if local.space != f"{identity.team}/{identity.space}":
            raise errors.ConfigurationError(
                f"The locks of this repository are in the space {local.space}, and the token belongs to "
                f"{identity.team}/{identity.space}. Choose another with --profile, or change .git/octo/config.toml."
            )
    lease_ids = saved_leases(client, arguments).held_by_this_job()
    parts = [
        client.check(wanted[first : first + MAX_NAMES], lease_ids=lease_ids)
        for first in range(0, len(wanted), MAX_NAMES)
    ]
    policy: Any = max(parts[0].policy, local.lock_policy or "off", key=POLICIES.index)
    conflicts = tuple(conflict for part in parts for conflict in part.conflicts)
    missing = tuple(name for part in parts for name in part.missing)
    decision: Literal["clear", "warn", "block"] = "clear"
    if policy == "require" and missing:
        decision = "block"
    elif policy != "off" and conflicts:
        decision = "warn"
    return LockCheck(decision, policy, conflicts, missing)


def report(result: LockCheck, output: Output) -> None:
    """Raises Blocked if the changes are not allowed."""
    lines = [
        f"{conflict.name} overlaps {one.name}, held by {sanitize(one.owner or '')}, {until(one.expires_at)}"
        for conflict in result.conflicts
        for one in conflict.blocked_by
    ]
    facts = {
        "decision": result.decision,
        "policy": result.policy,
        "conflicts": [
            {"resource": conflict.name, "blocked_by": [output.holder(one) for one in conflict.blocked_by]}
            for conflict in result.conflicts
        ],
        "missing": list(result.missing),
    }
    if result.decision == "block":
        blocked = {conflict.name for conflict in result.conflicts}
        lines += [
            f"{name} is not covered by a lease of yours: octo lock acquire {name} --ttl 30m"
            for name in result.missing
            if name not in blocked
        ]
        raise Blocked("A lock is required.", lines=lines, facts=facts)
    if result.decision == "warn":
        output.result(facts, ["Warning: others hold locks here", *(f"  {line}" for line in lines)])
    else:
        output.success(facts, ["Clear"])


def check(client: Client, arguments: Any, output: Output) -> None:
    result = check_names(client, arguments, arguments.names, find_config())
    report(result, output)


def run_hook(arguments: Any, output: Output) -> int:
    repository = find_repository()
    local = repository.config()
    files = _staged() if arguments.hook == "pre-commit" else _pushed(arguments.remote or "")
    prefix = f"{local.prefix.strip('/')}/" if local.prefix.strip("/") else ""
    wanted = sorted({names.of_file(os.fsdecode(file), prefix=prefix) for file in files})
    if not wanted:
        return ExitCode.DONE
    try:
        with connect(arguments) as client:
            result = check_names(client, arguments, wanted, local)
    except errors.OctoError as problem:
        return _unchecked(problem, arguments.hook, local, output)
    output.quiet = result.decision == "clear"
    report(result, output)
    return ExitCode.DONE


def _unchecked(problem: errors.OctoError, hook: str, local: RepositoryConfig, output: Output) -> int:
    if local.lock_policy == "require":
        command = "git commit" if hook == "pre-commit" else "git push"
        advice = [
            str(problem),
            f"Try again when the server can be reached, or go on without its protection: {command} --no-verify",
        ]
        raise Blocked("Locks could not be checked, and this repository requires them.", lines=advice)
    if local.lock_policy != "off":
        output.note(f"Warning: locks were not checked. {problem}")
    return ExitCode.DONE


def _staged() -> Iterator[bytes]:
    return filter(None, git("diff", "--cached", "--name-only", "--no-renames", "-z").split(b"\0"))


def _pushed(remote: str) -> Iterator[bytes]:
    """The files of all commits that the remote does not have; git names the refs on standard input."""
    for line in sys.stdin:
        _, local, _, known = line.split()
        if not local.strip("0"):
            # The ref is being deleted.
            continue
        exclude = ["--not", f"--remotes={remote}"]
        if known.strip("0") and _is_known(known):
            exclude.append(known)
        log = git("log", "--format=", "--name-only", "--no-renames", "-c", "-z", local, *exclude)
        yield from filter(None, log.split(b"\0"))


def _is_known(commit: str) -> bool:
    try:
        git("cat-file", "-e", commit)
    except errors.ConfigurationError:
        return False
    return True


def _script(hook: str) -> str:
    # Only pre-push has input, which both need.
    keep, feed = ("input=$(cat)\n", 'printf "%s\\n" "$input" | ') if hook == "pre-push" else ("", "")
    return f"""#!/bin/sh
{_MARK}
{keep}before="$(dirname "$0")/{hook}{_SAVED}"
if [ -x "$before" ]; then
  {feed}"$before" "$@" || exit $?
fi
if command -v octo > /dev/null 2>&1; then
  {feed}octo hook run {hook} "$@"
  exit $?
fi
echo "octo is not installed: locks were not checked." >&2
! grep -q '^ *lock_policy *= *"require"' "$(git rev-parse --git-common-dir)/octo/config.toml" 2> /dev/null
"""


def _is_ours(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _MARK in file.read()
    except FileNotFoundError:
        return False


def install_hooks(arguments: Any, output: Output) -> None:
    directory = find_repository().hooks
    os.makedirs(directory, exist_ok=True)
    chosen = arguments.hooks or HOOKS
    for hook in chosen:
        path = os.path.join(directory, hook)
        if os.path.lexists(path) and not _is_ours(path):
            if os.path.lexists(f"{path}{_SAVED}"):
                raise errors.ConfigurationError(f"There are two earlier hooks, {path} and {path}{_SAVED}: keep one.")
            os.rename(path, f"{path}{_SAVED}")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o777), "w", encoding="utf-8") as file:
            file.write(_script(hook))
    data = {"hooks": list(chosen), "directory": directory}
    output.success(data, [f"Installed {' and '.join(chosen)} in {directory}"])


def uninstall_hooks(arguments: Any, output: Output) -> None:
    directory = find_repository().hooks
    removed = []
    for hook in arguments.hooks or HOOKS:
        path = os.path.join(directory, hook)
        if not _is_ours(path):
            continue
        os.unlink(path)
        if os.path.lexists(f"{path}{_SAVED}"):
            os.rename(f"{path}{_SAVED}", path)
        removed.append(hook)
    output.success({"hooks": removed}, [f"Removed {' and '.join(removed)}" if removed else "No hook was installed."])


def init(arguments: Any, output: Output) -> None:
    repository = find_repository()
    before = repository.config()
    given = {"lock_policy": arguments.policy, "prefix": arguments.prefix, "space": arguments.space}
    local = before._replace(**{field: value for field, value in given.items() if value is not None})
    local = local._replace(lock_policy=local.lock_policy or "warn")
    os.makedirs(os.path.dirname(repository.config_file), exist_ok=True)
    if local != before:
        config.write_private(repository.config_file, _config_text(local))
    agents = os.path.join(repository.top, arguments.agents_file)
    _write_section(agents, _section(local))
    data = {"config": repository.config_file, "agents_file": agents, **local._asdict()}
    output.success(data, [f"Wrote {repository.config_file} and a section of {agents}"])


def _config_text(local: RepositoryConfig) -> str:
    import json

    lines = [
        f'lock_policy = "{local.lock_policy}"  # off, warn, require; the stricter of this and the space\'s counts',
        f"prefix = {json.dumps(local.prefix)}  # put before the names of files, where repositories share a space",
    ]
    if local.space:
        lines.append(f"space = {json.dumps(local.space)}  # the token must belong to it")
    return "\n".join(lines) + "\n"


def _write_section(path: str, section: str) -> None:
    """Between two marks, so that a second run replaces what the first wrote."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if begin and not end:
        raise errors.ConfigurationError(f"{path} has `{_BEGIN}` without `{_END}`: repair it first.")
    if not begin and head:
        head = head.rstrip("\n") + "\n\n"
    new = f"{head}{_BEGIN}\n{section}{_END}{tail if begin else chr(10)}"
    if new != text:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)


def _section(local: RepositoryConfig) -> str:
    file = names.of_file("src/auth.rs", prefix=f"{local.prefix.strip('/')}/" if local.prefix else "")
    return f"""## Locks

Other agents and people change this repository at the same time. Claim what you are going to change, with `octo`.

- First, once: `export OCTO_HOLDER=<your task>`, in every shell that you start. Your leases are saved under this name.
- **Claim** before you edit: `octo lock acquire {file} --ttl 30m --owner <you>`. A folder claims everything in it, an
  issue is `issue:<id>`, and `repo:<what>` stops everyone else. Exit code 0: it is yours. 4: it overlaps another's.
- **Yield** on exit code 4: do not edit. Take other work, or wait with `--wait 10m`. Do not force-release.
- **Renew** every 15 minutes: `octo lock renew {file} --ttl 30m`. Exit code 3 or 8: the lease is over, another may be at
  work. Stop, look at what has changed, and claim again.
- **Release** as soon as your change is committed: `octo lock release {file}`.
- `octo lock status` lists what is held, `octo lock check {file}` tells whether you may change it.
"""
