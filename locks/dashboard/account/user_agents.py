"""The common names of browsers."""

import re

# The first match wins: most user agents also name other browsers.
_BROWSERS = (
    (r"\bEdgA?/|\bEdgiOS/", "Edge"),
    (r"\bOPR/|\bOPT/", "Opera"),
    (r"\bFirefox/|\bFxiOS/", "Firefox"),
    (r"\bSamsungBrowser/", "Samsung Internet"),
    (r"\bHeadlessChrome/", "Headless Chrome"),
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


def describe_browser(user_agent: str) -> str:
    """For example “Firefox on Linux”; an unknown user agent as it is, shortened."""
    browser, system = _first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent)
    if browser is None:
        return user_agent[:60] or "Unknown browser"
    return f"{browser} on {system}" if system else browser


def _first(known: tuple[tuple[str, str], ...], user_agent: str) -> str | None:
    return next((name for pattern, name in known if re.search(pattern, user_agent)), None)
