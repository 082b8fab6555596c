"""Where the server is and which token to use: from arguments, the environment, or a profile that `octo login` saved."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from octo.errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_PROFILE = "default"
KEYRING_SERVICE = "octo"
_LOOPBACK = re.compile(r"localhost|.*\.localhost|127(\.\d{1,3}){3}|::1", re.IGNORECASE)
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN = re.compile(r"octo_([0-9A-Za-z]{12})_[0-9A-Za-z]{42}")
_CHECKSUM_LENGTH = 6


class Settings(NamedTuple):
    url: str
    token: str
    token_file: str | None = None
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    http2: bool = False

    def __repr__(self) -> str:
        return f"Settings(url={self.url!r})"


def resolve(
    *,
    url: str | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    profile: str | None = None,
    allow_http: bool | None = None,
    ca_file: str | None = None,
    client_cert: str | None = None,
    client_key: str | None = None,
    http2: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Arguments come before the environment, the environment before the profile, a token before a file. The token "" is
    none: elections need none."""
    saved = load_profile(profile or environment.get("OCTO_PROFILE"), environment)
    url = (url or environment.get("OCTO_URL") or saved.get("url") or DEFAULT_URL).rstrip("/")
    if allow_http is None:
        allow_http = environment.get("OCTO_ALLOW_HTTP", "") == "1"
    check_url(url, allow_http=allow_http)
    file: str | None = None
    if token is None and token_file is None:
        token = environment.get("OCTO_TOKEN") or None
        token_file = environment.get("OCTO_TOKEN_FILE") or None
        # A saved token is for the server that it was saved with.
        if token is None and token_file is None and url == saved.get("url"):
            token, token_file = _saved_token(saved)
    if token is None and token_file is not None:
        file = os.fspath(token_file)
        token = read_token_file(file) or None
    if token is None:
        raise ConfigurationError(
            "There is no token: run `octo login`, or set OCTO_TOKEN, or OCTO_TOKEN_FILE to a file that holds one."
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigurationError("The token contains characters that no token has; was it pasted with something else?")
    return Settings(
        url=url,
        token=token,
        token_file=file,
        ca_file=ca_file or environment.get("OCTO_CA_FILE") or None,
        client_cert=client_cert or environment.get("OCTO_CLIENT_CERT") or None,
        client_key=client_key or environment.get("OCTO_CLIENT_KEY") or None,
        http2=http2,
    )


def is_loopback(host: str) -> bool:
    return _LOOPBACK.fullmatch(host) is not None


def check_url(url: str, *, allow_http: bool) -> None:
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
        raise ConfigurationError("OCTO_URL must be an address such as https://octo.example.com, and nothing else.")
    if parts.scheme == "http" and not allow_http and not is_loopback(host):
        raise ConfigurationError(
            f"A token would cross the network to {host} in the clear. Use https, or set OCTO_ALLOW_HTTP=1 if the way "
            "there is protected otherwise."
        )


def read_token_file(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            state = os.fstat(file.fileno())
            if os.name == "posix" and (state.st_mode & 0o077 or state.st_uid not in (os.geteuid(), 0)):
                raise ConfigurationError(f"Other users can read the token in {path}. Close it with: chmod 600 {path}")
            if not stat.S_ISREG(state.st_mode):
                raise ConfigurationError(f"{path} is not a plain file.")
            return file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "it is not text"
        raise ConfigurationError(f"The token file {path} cannot be read: {reason}.") from None


def write_private(path: str, text: str) -> None:
    """Readable by its owner only, and either the old content or the new, even after a crash."""
    draft = f"{path}.{os.getpid()}"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def config_directory(environment: Mapping[str, str] = os.environ) -> str:
    default = os.environ.get("APPDATA") if os.name == "nt" else None
    home = environment.get("XDG_CONFIG_HOME") or default or os.path.expanduser("~/.config")
    return os.path.join(home, "octo")


def _profiles(environment: Mapping[str, str]) -> Any:
    import configparser

    profiles = configparser.ConfigParser(interpolation=None, default_section="")
    try:
        profiles.read(os.path.join(config_directory(environment), "config.ini"), encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as problem:
        raise ConfigurationError(f"The profiles in {config_directory(environment)} cannot be read: {problem}") from None
    return profiles


def load_profile(name: str | None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What `octo login` saved; nothing if it was never run."""
    if not os.path.exists(os.path.join(config_directory(environment), "config.ini")):
        profiles: Any = {}
    else:
        profiles = _profiles(environment)
    if name and name not in profiles:
        raise ConfigurationError(f"There is no profile {name}: make it with `octo login --profile {name}`.")
    return dict(profiles[name or DEFAULT_PROFILE]) if (name or DEFAULT_PROFILE) in profiles else {}


def save_profile(name: str, *, url: str, token: str | None) -> str:
    """Where the token is now. Without a token the profile is removed."""
    directory = config_directory()
    os.makedirs(directory, mode=0o700, exist_ok=True)
    profiles = _profiles(os.environ)
    file = os.path.join(directory, f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)}.token")
    ring = _keyring()
    if name in profiles:
        profiles.remove_section(name)
    if os.path.exists(file):
        os.unlink(file)
    if ring is not None and ring.get_password(KEYRING_SERVICE, name):
        ring.delete_password(KEYRING_SERVICE, name)
    place = "nowhere"
    if token is not None:
        profiles[name] = {"url": url}
        if ring is not None:
            ring.set_password(KEYRING_SERVICE, name, token)
            profiles[name]["keyring"] = name
            place = "the keyring"
        else:
            write_private(file, f"{token}\n")
            profiles[name]["token_file"] = place = file
    import io

    text = io.StringIO()
    profiles.write(text)
    write_private(os.path.join(directory, "config.ini"), text.getvalue())
    return place


def _saved_token(saved: Mapping[str, str]) -> tuple[str | None, str | None]:
    if "keyring" in saved:
        ring = _keyring()
        return (ring.get_password(KEYRING_SERVICE, saved["keyring"]) if ring else None), None
    return None, saved.get("token_file")


def _keyring() -> Any:
    """The `keyring` package, if it is installed and has a place that is safe."""
    try:
        import keyring  # type: ignore[import-not-found,unused-ignore]
        from keyring.errors import KeyringError  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    try:
        return keyring if keyring.get_keyring().priority >= 1 else None
    except (KeyringError, RuntimeError):
        return None


def public_id(token: str) -> str | None:
    """The part of a token that is no secret; None unless shape and checksum are right."""
    match = _TOKEN.fullmatch(token)
    if match is None or _checksum(token[:-_CHECKSUM_LENGTH]) != token[-_CHECKSUM_LENGTH:]:
        return None
    return match[1]


def validate_token(token: str) -> str | None:
    """What is wrong with a token, as a sentence that does not quote it; None if nothing is seen to be."""
    if not token.startswith("octo_"):
        return "It does not start with octo_, so it is no token of Octoadmin."
    if _TOKEN.fullmatch(token) is None:
        return "It is not octo_<12 characters>_<42 characters>: part of it is missing, or there is too much."
    if public_id(token) is None:
        return "Its checksum is wrong: a character was changed on the way."
    return None


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits
