"""Checks before `up` starts anything: the data directory and the address must be free."""

import errno
import fcntl
import os
import socket
import time
from ipaddress import ip_address
from pathlib import Path

# The reaper of an `up` that was killed keeps the lock while it cleans up, for up to four seconds.
CLEANUP_SECONDS = 8.0


class CannotStart(Exception):
    """The message tells the user of `up` what is wrong, and what to do."""


def url_of(*, host: str, port: int) -> str:
    """A URL that can be opened: a server that listens on every address is reached on loopback."""
    if ip_address(host).is_unspecified:
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def lock_directory(directory: Path, *, url: str) -> int:
    """Locks the data directory until the returned file is closed. A new one is readable by this account only."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(directory / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CannotStart(
            f"The data directory {directory} cannot be used ({error.strerror}). "
            "Make it writable, or name another one with OCTO_DATA_DIR=/path/to/it."
        ) from None
    deadline = time.monotonic() + CLEANUP_SECONDS
    while not _try_lock(lock):
        pid, _, first_url = os.pread(lock, 1000, 0).decode().strip().partition(" ")
        if time.monotonic() > deadline or (pid and _is_alive(int(pid))):
            raise CannotStart(
                f"Octoadmin is already running on {directory}: process {pid or 'unknown'}, {first_url}. "
                f"Use that one, stop it with `kill {pid}`, or give this one its own directory and port: "
                "OCTO_DATA_DIR=/path/to/it PORT=8001."
            )
        time.sleep(0.05)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()} {url}\n".encode(), 0)
    return lock


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It belongs to another account, and is alive.
    return True


def check_host(host: str) -> None:
    try:
        ip_address(host)
    except ValueError:
        raise CannotStart(
            f"HOST={host} is a name, and the server needs an address: 127.0.0.1 for this machine alone, "
            "0.0.0.0 for every network it is on."
        ) from None


def check_port(*, host: str, port: int) -> None:
    """Whether the server will be able to listen. Raises CannotStart."""
    family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CannotStart(bind_error_message(error, host=host, port=port)) from None


def bind_error_message(error: OSError, *, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"Port {port} on {host} is taken by another program. Choose another: PORT={port + 1}"
        case errno.EACCES:
            return f"Port {port} is not for this account. Choose one above 1023: PORT=8000"
        case errno.EADDRNOTAVAIL:
            return f"HOST={host} is not an address of this machine. Leave it empty for loopback, or set 0.0.0.0."
        case _:
            return f"The server cannot listen on {host}, port {port} ({error.strerror}). Set HOST and PORT."
