"""The metadata of a lease as chips: `key=value` pairs and the entries of a JSON object.

Metadata is untrusted: it is shown as text, and only plain web URLs become links.
"""

import json
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_URL = 30
# Keys are words of any script. A pair begins after a separator: an equals sign within a word, as in a URL, makes none.
_PAIR = re.compile(r"""(?<![^\s,;|])(?P<key>[^\W\d][\w.\-/]*)=(?P<value>"[^"]*"|'[^']*'|\S+)""")

# Without the characters that add headers or more recipients to a mailto: link.
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)*", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """Without a key: plain text."""

    value: str
    key: str = ""

    @property
    def link(self) -> str | None:
        return self.value if is_web_url(self.value) else None

    @property
    def contact_link(self) -> str | None:
        return self.link or (f"mailto:{self.value}" if _EMAIL.fullmatch(self.value) else None)

    @property
    def label(self) -> str:
        """A URL without scheme and `www`; of a long one only the host and the last part."""
        if not self.link:
            return self.value
        short = re.sub(r"^https?://(www\.)?", "", self.value).rstrip("/")
        host, _, path = short.partition("/")
        return f"{host}/…/{path.rpartition('/')[2]}" if len(short) > MAX_URL and "/" in path else short


def chips(metadata: str | None) -> list[Chip]:
    if not metadata or not metadata.strip():
        return []
    parsed = _from_json(metadata)
    return _from_text(metadata) if parsed is None else parsed


def contact(metadata: str | None) -> Chip | None:
    """The entry `contact`, if it is an e-mail address or a web URL."""
    for chip in chips(metadata):
        if chip.key.lower() == "contact" and chip.contact_link:
            return chip
    return None


def _from_json(metadata: str) -> list[Chip] | None:
    if not metadata.lstrip().startswith("{"):
        return None
    try:
        decoded = json.loads(metadata)
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None
    return [
        Chip(
            key=_valid_text(key),
            value=_valid_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)),
        )
        for key, value in decoded.items()
    ]


def _valid_text(text: str) -> str:
    """JSON can contain a lone surrogate, which cannot be encoded."""
    return text.encode(errors="replace").decode()


def _from_text(metadata: str) -> list[Chip]:
    result: list[Chip] = []
    position = 0
    for pair in _PAIR.finditer(metadata):
        result += _plain_text(metadata[position : pair.start()])
        value = pair["value"]
        quoted = len(value) >= 2 and value[0] in "\"'" and value[-1] == value[0]
        result.append(Chip(key=pair["key"], value=value[1:-1] if quoted else value.rstrip(",;")))
        position = pair.end()
    return result + _plain_text(metadata[position:])


def _plain_text(text: str) -> list[Chip]:
    """Consecutive words make one chip, a web URL one of its own."""
    result: list[Chip] = []
    words: list[str] = []
    for word in text.split():
        if is_web_url(word):
            result += [Chip(value=" ".join(words))] if words else []
            result.append(Chip(value=word))
            words = []
        elif word.strip(",;|"):
            words.append(word)
    return result + ([Chip(value=" ".join(words))] if words else [])


def is_web_url(text: str) -> bool:
    if not text.startswith(("http://", "https://")):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    # A user name before an @ can make a URL look like that of another host.
    return bool(parts.hostname) and parts.username is None and text.isprintable() and " " not in text
