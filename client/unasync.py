"""Makes the blocking client of the asynchronous one: `python client/unasync.py`, or with `--check` to compare only."""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "octo"
FILES = {"async_leases.py": "leases.py", "async_runs.py": "runs.py", "async_client.py": "client.py"}
RULES = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__", r"__\1__"),
    (r"\bAwaitable\[(Result(?: \| None)?)\]", r"\1"),
    (r"\bAsyncGenerator\[([\w.]+), None\]", r"Generator[\1, None, None]"),
    (r"AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable,", "Callable, Generator, Iterable, Iterator,"),
    (r"\bAsyncExitStack\b", "ExitStack"),
    (r"\benter_async_context\b", "enter_context"),
    (r"\bAsync(?!BaseTransport)([A-Z]\w+)", r"\1"),
    (r"\basync_(leases|runs|client)\b", r"\1"),
    (r"asynchronous client", "blocking client"),
    (r"Belongs to the event loop that uses it\.", "Any thread may use it."),
]


def blocking(text: str, source: str) -> str:
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return f"# Generated from {source} by client/unasync.py; edit that file instead.\n{text}"


def main() -> int:
    different = 0
    for source, target in FILES.items():
        text = blocking((PACKAGE / source).read_text(), source)
        if "--check" in sys.argv:
            different += text != (PACKAGE / target).read_text()
        else:
            (PACKAGE / target).write_text(text)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
