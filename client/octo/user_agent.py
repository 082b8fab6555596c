"""What every request says about its sender."""

from __future__ import annotations

import sys

VERSION = "0.1.0"


def headers_for(*, token: str, program: str | None) -> dict[str, str]:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    agent = f"octo/{VERSION} Python/{python}"
    return {
        "Authorization": f"Bearer {token}",
        "User-Agent": f"{agent} {program}" if program else agent,
        "Accept": "application/json",
    }
