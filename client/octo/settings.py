"""Where the server is and who we are, from arguments and the environment."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from octo.errors import ConfigurationProblem

DEFAULT_URL = "http://127.0.0.1:8000"
_LOOPBACK = re.compile(r"localhost|.*\.localhost|127(\.\d{1,3}){3}|::1", re.IGNORECASE)


class Settings(NamedTuple):
    url: str
    token: str
    token_file: str | None = None

    def __repr__(self) -> str:
        return f"Settings(url={self.url!r})"


def resolve(
    *,
    url: str | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    allow_http: bool | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """An argument counts before the environment, a token before a file."""
    url = (url or environment.get("OCTO_URL") or DEFAULT_URL).rstrip("/")
    if allow_http is None:
        allow_http = environment.get("OCTO_ALLOW_HTTP", "") == "1"
    check_url(url, allow_http=allow_http)
    file: str | None = None
    if token is None and token_file is None:
        token = environment.get("OCTO_TOKEN") or None
        token_file = environment.get("OCTO_TOKEN_FILE") or None
    if token is None and token_file is not None:
        file = os.fspath(token_file)
        token = read_token_file(file)
    if not token:
        raise ConfigurationProblem("There is no token: set OCTO_TOKEN, or OCTO_TOKEN_FILE to a file that holds one.")
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigurationProblem(
            "The token contains characters that no token has; was it pasted with something else?"
        )
    return Settings(url=url, token=token, token_file=file)


def is_loopback(host: str) -> bool:
    return _LOOPBACK.fullmatch(host) is not None


def check_url(url: str, *, allow_http: bool) -> None:
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
        raise ConfigurationProblem("OCTO_URL must be an address such as https://octo.example.com, and nothing else.")
    if parts.scheme == "http" and not allow_http and not is_loopback(host):
        raise ConfigurationProblem(
            f"A token would cross the network to {host} in the clear. Use https, or set OCTO_ALLOW_HTTP=1 if the way "
            "there is protected otherwise."
        )


def read_token_file(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            state = os.fstat(file.fileno())
            if os.name == "posix" and (state.st_mode & 0o077 or state.st_uid not in (os.geteuid(), 0)):
                raise ConfigurationProblem(f"Others can get at the token in {path}. Close it with: chmod 600 {path}")
            if not stat.S_ISREG(state.st_mode):
                raise ConfigurationProblem(f"{path} is not a plain file.")
            return file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not text"
        raise ConfigurationProblem(f"The token file {path} cannot be read: {why}.") from None
