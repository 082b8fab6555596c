"""Finds a Chromium for the browser tests: the system's, or Playwright's own."""

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

# Debian's package of Chromium without windows needs less than half of the processor time.
HEADLESS = "chromium-headless-shell"
SYSTEM_NAMES = (HEADLESS, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_APPLICATIONS = (
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
)
# Root has no sandbox. The browser must send no requests of its own. Tabs of one context share a process.
ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--renderer-process-limit=1",
    *(("--no-sandbox",) if os.geteuid() == 0 else ()),
)


def find() -> Path | None:
    for name in SYSTEM_NAMES:
        if found := shutil.which(name):
            return Path(found)
    for application in MAC_APPLICATIONS:
        if application.exists():
            return application
    with sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
    return own if own.exists() else None
