"""Browsers by the names that people know them by."""

import re

# The first that is found: the names of others stand in nearly all of them.
_BROWSERS = (
    (r"\bEdgA?/|\bEdgiOS/", "Edge"),
    (r"\bOPR/|\bOPT/", "Opera"),
    (r"\bFirefox/|\bFxiOS/", "Firefox"),
    (r"\bSamsungBrowser/", "Samsung Internet"),
    (r"\bHeadlessChrome/", "Chrome without a window"),
    (r"\bChrome/|\bCriOS/|\bChromium/", "Chrome"),
    (r"\bSafari/", "Safari"),
    (r"\bcurl/", "curl"),
    (r"\bpython\b|\bPython-", "Python"),
)
_SYSTEMS = (
    (r"\biPhone\b", "iPhone"),
    (r"\biPad\b", "iPad"),
    (r"\bAndroid\b", "Android"),
    (r"\bCrOS\b", "ChromeOS"),
    (r"\bWindows\b", "Windows"),
    (r"\bMac OS X\b|\bMacintosh\b", "macOS"),
    (r"\bLinux\b", "Linux"),
)


def humanize(user_agent: str) -> str:
    """“Firefox on Linux”. What nobody knows is shown as it is."""
    browser, system = _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)
    if browser is None:
        return user_agent[:60] or "Unknown browser"
    return f"{browser} on {system}" if system else browser


def _first(known: tuple[tuple[str, str], ...], user_agent: str) -> str | None:
    return next((name for pattern, name in known if re.search(pattern, user_agent)), None)
