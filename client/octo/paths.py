"""Paths of the API."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode


def lock(name: str, verb: str = "") -> str:
    """A slash in a name is sent as %2F, so that a name is one segment for every proxy on the way."""
    # A name of dots would be taken for a place in a path.
    encoded = quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
    return f"/locks/{encoded}/{verb}" if verb else f"/locks/{encoded}"


def query(path: str, parameters: Mapping[str, object]) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
