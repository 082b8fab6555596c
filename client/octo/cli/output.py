"""What commands print, and how they end: text or one JSON envelope, results on standard output, errors on standard
error. Durations are read and written as people do: `90`, `30s`, `15m`, `1h`, `1h30m`."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from enum import IntEnum
from typing import Any, TextIO

from octo import errors
from octo.models import Holder, format_time

SCHEMA_VERSION = 1
_COLORS = {"red": "31", "green": "32", "bold": "1"}
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PATTERN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


class ExitCode(IntEnum):
    DONE = 0
    OTHER = 1
    USAGE = 2
    NOT_FOUND = 3
    HELD = 4
    ENVIRONMENT = 5
    NOT_AUTHORISED = 7
    LEASE_LOST = 8
    LOCK_TIMEOUT = 124


class LeaseNotSaved(errors.OctoError):
    """This shell has not acquired the lock."""

    code = "not_remembered"


class UsageError(errors.OctoError):
    """The command line is wrong."""

    code = "usage"

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class Blocked(errors.OctoError):
    """The lock policy does not allow the change."""

    code = "blocked"

    def __init__(self, message: str, *, lines: Sequence[str] = (), facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.lines = lines
        self.facts = facts or {}


# The first match counts.
_EXIT_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (errors.LockTimeout, ExitCode.LOCK_TIMEOUT),
    (errors.LockHeld, ExitCode.HELD),
    (Blocked, ExitCode.HELD),
    (errors.VersionMismatch, ExitCode.HELD),
    (errors.LeaseEnded, ExitCode.LEASE_LOST),
    (errors.LeaseNotCurrent, ExitCode.LEASE_LOST),
    (errors.NotFound, ExitCode.NOT_FOUND),
    (errors.SessionExpired, ExitCode.NOT_FOUND),
    (LeaseNotSaved, ExitCode.NOT_FOUND),
    (errors.AuthenticationRequired, ExitCode.NOT_AUTHORISED),
    (errors.AuthenticationFailed, ExitCode.NOT_AUTHORISED),
    (errors.Forbidden, ExitCode.NOT_AUTHORISED),
    (errors.InvalidInput, ExitCode.USAGE),
    (errors.InvalidTtl, ExitCode.USAGE),
    (errors.InvalidLockName, ExitCode.USAGE),
    (UsageError, ExitCode.USAGE),
    (errors.ConfigurationError, ExitCode.ENVIRONMENT),
    (errors.TransportError, ExitCode.ENVIRONMENT),
    (errors.Unavailable, ExitCode.ENVIRONMENT),
    (errors.RateLimited, ExitCode.ENVIRONMENT),
    (errors.InternalError, ExitCode.ENVIRONMENT),
)


def exit_code_of(problem: BaseException) -> ExitCode:
    return next((code for kind, code in _EXIT_CODES if isinstance(problem, kind)), ExitCode.OTHER)


def colorize(text: str, color: str, stream: TextIO) -> str:
    colorful = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()
    return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if colorful else text


def parse_duration(text: str) -> int:
    """Whole seconds. Raises ValueError with a sentence that says what is expected."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    match = _PATTERN.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a duration; write 90, 30s, 15m, 1h or 1h30m")
    return sum(int(count) * unit for count, unit in zip(match.groups(), _UNITS.values(), strict=True) if count)


def format_duration(seconds: float) -> str:
    """As in "expires in 25m": the two largest units, and seconds only below ten minutes."""
    left = max(0, int(seconds))
    if left >= 600:
        left -= left % 60
    parts = []
    for name, unit in _UNITS.items():
        count, left = divmod(left, unit)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts[:2]) or "0s"


def unix_ms(time: datetime | None) -> int | None:
    return int(time.timestamp() * 1000) if time else None


def expires(time: datetime | None) -> str:
    return time.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC") if time else "unknown"


def until(time: datetime | None) -> str:
    if time is None:
        return ""
    left = (time - datetime.now(timezone.utc)).total_seconds()
    return f"expires in {format_duration(left)}" if left > 0 else "expired"


def sanitize(text: str) -> str:
    """Owners and metadata come from others: nothing in them may move the cursor."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def table(rows: Sequence[Sequence[str]], *, indent: str = "") -> list[str]:
    """Columns as wide as their widest cell; the last one is not padded."""
    shown = [[sanitize(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*shown, strict=True)]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown
    ]


def records_table(columns: tuple[str, ...], records: list[dict[str, Any]], none: str) -> list[str]:
    cells = [[_cell(record.get(column)) for column in columns] for record in records]
    return table([[column.replace("_", " ").upper() for column in columns], *cells]) if records else [none]


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return format_time(value) or ""
    return ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


class Output:
    def __init__(self, *, as_json: bool, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet

    def result(self, data: dict[str, Any], lines: Iterable[str] = ()) -> None:
        """What was asked for."""
        if self.as_json:
            self._envelope({"ok": True, "data": data})
        else:
            sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()

    def success(self, data: dict[str, Any], lines: Iterable[str]) -> None:
        """That something was done; `--quiet` leaves it out."""
        if self.as_json or not self.quiet:
            self.result(data, lines)

    def note(self, line: str) -> None:
        if not self.as_json and not self.quiet:
            sys.stderr.write(f"{line}\n")

    def error(self, problem: errors.OctoError) -> int:
        """Returns the exit code."""
        title, facts = _describe(problem)
        if self.as_json:
            error: dict[str, Any] = {"code": problem.code, "message": str(problem)}
            if isinstance(problem, errors.ApiError) and problem.request_id:
                error["request_id"] = problem.request_id
            self._envelope({"ok": False, "error": error | facts})
        else:
            sys.stdout.flush()
            sys.stderr.write(f"{colorize('Error:', 'red', sys.stderr)} {title}\n")
            for label in ("resource", "owner", "metadata"):
                if facts.get(label):
                    sys.stderr.write(f"  {label.capitalize()}: {sanitize(facts[label])}\n")
            sys.stderr.writelines(f"  {line}\n" for line in _details(problem))
        return int(exit_code_of(problem))

    @staticmethod
    def holder(held: Holder) -> dict[str, Any]:
        """A lease of another holder in JSON."""
        known = {field: getattr(held, field) for field in ("owner", "metadata", "fencing_token", "expires_at")}
        return {"resource": held.name, **known, "expires_unix_ms": unix_ms(held.expires_at)}

    @staticmethod
    def _envelope(content: dict[str, Any]) -> None:
        envelope = {"schema_version": SCHEMA_VERSION, **content}
        sys.stdout.write(json.dumps(envelope, ensure_ascii=False, default=format_time) + "\n")
        sys.stdout.flush()


def _describe(problem: errors.OctoError) -> tuple[str, dict[str, Any]]:
    """A title, and facts for JSON."""
    facts: dict[str, Any] = {}
    title = str(problem)
    if isinstance(problem, errors.LockDelayed):
        title = "Lock frozen" if problem.delayed.frozen else "Lock closed for a while"
        facts = {"resource": problem.name, "available_at": problem.delayed.available_at}
        facts |= {"reason": problem.delayed.reason, "frozen_prefix": problem.delayed.frozen_prefix}
    elif isinstance(problem, errors.LockHeld):
        title = "Waited too long" if isinstance(problem, errors.LockTimeout) else "Lock conflict"
        facts = {"resource": problem.name}
        if (held := problem.held) is not None:
            facts |= {**Output.holder(held), "resource": problem.name}
        facts["blocked_by"] = [Output.holder(one) for one in problem.blocked_by]
    elif isinstance(problem, Blocked):
        facts = dict(problem.facts)
    elif isinstance(problem, errors.ApiError):
        title = f"{problem.title}: {problem.details}" if problem.title else title
        facts = {"current_version": problem.current_version, "which": problem.which}
    return title, {key: value for key, value in facts.items() if value not in (None, "", [])}


def _details(problem: errors.OctoError) -> list[str]:
    """What a terminal shows besides the title and the first holder: every lease that stands in the way."""
    if isinstance(problem, Blocked):
        return list(problem.lines)
    if not isinstance(problem, errors.LockHeld):
        return []
    lines = []
    if problem.held and problem.held.expires_at:
        lines.append(f"Expires: {expires(problem.held.expires_at)}")
    if [one.name for one in problem.blocked_by] not in ([], [problem.name]):
        rows = [(one.name, one.owner or "", until(one.expires_at)) for one in problem.blocked_by]
        lines += ["Blocked by:", *table(rows, indent="  ")]
    return lines
