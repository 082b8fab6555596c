"""What workers say about themselves, made readable: `key=value` pairs and JSON objects become chips.

Metadata is written by whoever has a token, so it is shown as text, and only plain web addresses become links.
"""

import json
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_ADDRESS = 30
# Keys are words of any script. A pair stands apart: an equals sign within a word, as in an address, makes none.
_PAIR = re.compile(r"""(?<![^\s,;|])(?P<key>[^\W\d][\w.\-/]*)=(?P<value>"[^"]*"|'[^']*'|\S+)""")


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """Without a key: a piece of plain text."""

    value: str
    key: str = ""

    @property
    def link(self) -> str | None:
        return self.value if _is_web_address(self.value) else None

    @property
    def shown(self) -> str:
        """An address without what every address has; a long one by its host and its end."""
        if not self.link:
            return self.value
        short = re.sub(r"^https?://(www\.)?", "", self.value).rstrip("/")
        host, _, path = short.partition("/")
        return f"{host}/…/{path.rpartition('/')[2]}" if len(short) > MAX_ADDRESS and "/" in path else short


def chips(metadata: str | None) -> list[Chip]:
    if not metadata or not metadata.strip():
        return []
    found = _from_json(metadata)
    return _from_text(metadata) if found is None else found


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
        Chip(key=_whole(key), value=_whole(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
        for key, value in decoded.items()
    ]


def _whole(text: str) -> str:
    """JSON can name half a character, which no page can be written with."""
    return text.encode(errors="replace").decode()


def _from_text(metadata: str) -> list[Chip]:
    found: list[Chip] = []
    position = 0
    for pair in _PAIR.finditer(metadata):
        found += _plain(metadata[position : pair.start()])
        value = pair["value"]
        quoted = len(value) >= 2 and value[0] in "\"'" and value[-1] == value[0]
        found.append(Chip(key=pair["key"], value=value[1:-1] if quoted else value.rstrip(",;")))
        position = pair.end()
    return found + _plain(metadata[position:])


def _plain(text: str) -> list[Chip]:
    """Words stay together, web addresses stand alone."""
    found: list[Chip] = []
    words: list[str] = []
    for word in text.split():
        if _is_web_address(word):
            found += [Chip(value=" ".join(words))] if words else []
            found.append(Chip(value=word))
            words = []
        elif word.strip(",;|"):
            words.append(word)
    return found + ([Chip(value=" ".join(words))] if words else [])


def _is_web_address(text: str) -> bool:
    if not text.startswith(("http://", "https://")):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    # A name before an @ can make an address look like another's.
    return bool(parts.hostname) and parts.username is None and text.isprintable() and " " not in text
