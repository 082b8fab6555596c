"""The proxy that the environment names for https (`https_proxy`, `no_proxy`). Plain http goes straight."""

from __future__ import annotations

import os
from typing import NamedTuple


class Proxy(NamedTuple):
    host: str
    port: int
    headers: dict[str, str]


def proxy_for(*, host: str, port: int | None) -> Proxy | None:
    if not any(os.environ.get(name) for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")):
        return None
    # Costs twenty milliseconds to import, and most machines have no proxy.
    import base64
    from urllib.parse import unquote, urlsplit
    from urllib.request import getproxies, proxy_bypass

    from octo.settings import is_loopback

    if is_loopback(host) or proxy_bypass(f"{host}:{port}" if port else host):
        return None
    proxies = getproxies()
    address = proxies.get("https") or proxies.get("all")
    if not address:
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    headers = {}
    if parts.username:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    return Proxy(parts.hostname or "", parts.port or 3128, headers)
