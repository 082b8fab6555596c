"""What commands print: words for people, or one JSON envelope; results on standard output, errors on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, TextIO

from octo import durations, errors
from octo.cli.exit_codes import exit_code_of

SCHEMA_VERSION = 1
_CODES = {"red": "31", "green": "32", "yellow": "33", "dim": "2", "bold": "1"}


def is_colourful(stream: TextIO) -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def painted(text: str, colour: str, stream: TextIO) -> str:
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if is_colourful(stream) else text


def unix_ms(time: datetime | None) -> int | None:
    return int(time.timestamp() * 1000) if time else None


def at(time: datetime | None) -> str:
    return time.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC") if time else "unknown"


def until(time: datetime | None) -> str:
    if time is None:
        return ""
    left = (time - datetime.now(timezone.utc)).total_seconds()
    return f"expires in {durations.short(left)}" if left > 0 else "expired"


def visible(text: str) -> str:
    """Owners and metadata are written by others: nothing in them may move the cursor."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


class Output:
    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def done(self, data: dict[str, Any], lines: Iterable[str] = ()) -> None:
        if self.as_json:
            self._envelope({"ok": True, "data": data})
        else:
            for line in lines:
                sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def say(self, line: str) -> None:
        """For people only."""
        if not self.as_json:
            sys.stderr.write(f"{line}\n")

    def failed(self, problem: errors.OctoError) -> int:
        """Tells what went wrong and returns the exit code."""
        title, facts = _describe(problem)
        if self.as_json:
            told: dict[str, Any] = {"code": problem.code, "message": str(problem)}
            if isinstance(problem, errors.ApiError) and problem.request_id:
                told["request_id"] = problem.request_id
            self._envelope({"ok": False, "error": told | {key: value for key, value, _label in facts if value}})
        else:
            sys.stdout.flush()
            sys.stderr.write(f"{painted('Error:', 'red', sys.stderr)} {title}\n")
            for _key, value, label in facts:
                if value and label:
                    sys.stderr.write(f"  {label}: {at_or_text(value, label)}\n")
        return int(exit_code_of(problem))

    @staticmethod
    def _envelope(content: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"schema_version": SCHEMA_VERSION, **content}, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def at_or_text(value: Any, label: str) -> str:
    if label == "Expires":
        return at(datetime.fromtimestamp(value / 1000, timezone.utc))
    return visible(str(value))


def _describe(problem: errors.OctoError) -> tuple[str, list[tuple[str, Any, str]]]:
    """A title, and facts as (name in JSON, value, label for people)."""
    if isinstance(problem, errors.LockDelayed):
        opens = unix_ms(problem.delayed.available_at)
        return "Lock closed for a while", [("resource", problem.name, "Resource"), ("available_unix_ms", opens, "")]
    if isinstance(problem, errors.LockHeld):
        title = "Waited too long" if isinstance(problem, errors.WaitedTooLong) else "Lock conflict"
        held = problem.held
        facts: list[tuple[str, Any, str]] = [("resource", problem.name, "Resource")]
        if held is not None:
            facts += [
                ("owner", held.owner, "Owner"),
                ("metadata", held.metadata, "Metadata"),
                ("expires_unix_ms", unix_ms(held.expires_at), "Expires"),
            ]
        return title, facts
    if isinstance(problem, errors.ApiError):
        return f"{problem.title}: {problem.details}" if problem.title else problem.details, []
    return str(problem), []


def table(rows: Sequence[Sequence[str]], *, indent: str = "") -> list[str]:
    """Columns as wide as their widest cell; the last one is not padded."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*shown, strict=True)]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown
    ]
