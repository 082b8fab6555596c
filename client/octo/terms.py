"""What a lease is asked to be like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

Metadata: TypeAlias = "str | Mapping[str, object] | None"

# Every server's default; used to reckon with a server that does not say how long it granted.
DEFAULT_TTL = 60
JOB_TTL = 120
_PLAIN = re.compile(r"[^\s\"']+")


def metadata_text(metadata: Metadata) -> str | None:
    """Metadata is plain text; a mapping becomes `key=value` pairs, which the dashboard shows one by one."""
    if metadata is None or isinstance(metadata, str):
        return metadata
    pairs = []
    for key, value in metadata.items():
        text = str(value)
        if not _PLAIN.fullmatch(text):
            text = '"' + text.replace('"', "'") + '"'
        pairs.append(f"{key}={text}")
    return " ".join(pairs)


class Terms(NamedTuple):
    ttl: int | None = None
    owner: str | None = None
    metadata: str | None = None
    lock_delay: int | None = None
    session_id: str | None = None
    ephemeral: bool | None = None

    def body(self) -> dict[str, Any]:
        asked = {
            "ttl_seconds": self.ttl,
            "owner": self.owner,
            "metadata": self.metadata,
            "lock_delay_seconds": self.lock_delay,
            "session_id": self.session_id,
            "ephemeral": self.ephemeral,
        }
        return {field: value for field, value in asked.items() if value is not None}
