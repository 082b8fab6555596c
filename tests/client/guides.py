"""The code in the guides of the client, for the tests that run it."""

import re

from tests.servers import PROJECT_DIR

DOCS = PROJECT_DIR / "docs"
# They need a server or a token of their own, and other tests run them.
APART = ("Runs", "Runs and their store", "Leaders")


def blocks(document: str, language: str, *, section: str | None = None) -> list[str]:
    """Of one section, or of all except those apart."""
    parts = re.split(r"^## (.+)$", (DOCS / document).read_text(), flags=re.MULTILINE)
    sections = dict(zip(["", *parts[1::2]], parts[::2], strict=True))
    chosen = [text for title, text in sections.items() if (title == section if section else title not in APART)]
    return [
        block for text in chosen for block in re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]
