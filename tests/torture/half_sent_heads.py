"""Connections that send half of a head, and requests for /health on new connections meanwhile.

    python -m tests.torture.half_sent_heads --connections 4000 --before nginx

starts an Octoadmin of its own, with the shipped configuration of nginx or Caddy in front of it, or without a proxy. To
the server half of an HTTP head is sent, to a proxy half of a TLS greeting.
"""

import argparse
import asyncio
import contextlib
import json
import os
import selectors
import socket
import ssl
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from octoadmin.run.server import raise_file_limit
from tests.octoadmin.http_client import head_of, read_reply
from tests.servers import PROJECT_DIR, free_port
from tests.torture.neighbour import running_octoadmin

HALF_HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Half:"
# The beginning of a ClientHello of 512 bytes.
HALF_GREETING = bytes.fromhex("16030102000100" + "01fc0303") + bytes(32)
NGINX = "worker_processes 2;\nworker_rlimit_nofile 40000;\ndaemon off;\npid {directory}/pid;\nerror_log stderr crit;\n"
NGINX += "events {{ worker_connections 20000; }}\nhttp {{ access_log off; include {directory}/octoadmin.conf; }}\n"


@contextmanager
def nginx(port: int, upstream: int, directory: Path) -> Iterator[None]:
    certificate = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    certificate += ["-keyout", directory / "key", "-out", directory / "crt", "-subj", "/CN=localhost", "-days", "1"]
    subprocess.run(certificate, check=True, capture_output=True)
    shipped = (PROJECT_DIR / "deploy/nginx/octoadmin.conf").read_text()
    for old, new in (
        ("127.0.0.1:8000", f"127.0.0.1:{upstream}"), ("listen 80;", f"listen 127.0.0.1:{port + 1};"),
        ("listen 443", f"listen 127.0.0.1:{port}"), ("locks.example", "localhost"),
        ("/etc/nginx/tls/octoadmin.crt", f"{directory}/crt"), ("/etc/nginx/tls/octoadmin.key", f"{directory}/key"),
    ):  # fmt: skip
        assert old in shipped
        shipped = shipped.replace(old, new)
    (directory / "octoadmin.conf").write_text(shipped)
    (directory / "nginx.conf").write_text(NGINX.format(directory=directory))
    with _running(["nginx", "-c", str(directory / "nginx.conf")]):
        yield


@contextmanager
def caddy(port: int, upstream: int, directory: Path) -> Iterator[None]:
    """With a certificate of its own authority, which nothing is made to trust, and on no other port."""
    environment = os.environ | {
        "OCTO_DOMAIN": f"https://localhost:{port}", "OCTO_UPSTREAM": f"127.0.0.1:{upstream}",
        "XDG_DATA_HOME": str(directory), "XDG_CONFIG_HOME": str(directory),
    }  # fmt: skip
    adapt = ["caddy", "adapt", "--config", str(PROJECT_DIR / "deploy/caddy/Caddyfile"), "--adapter", "caddyfile"]
    config = json.loads(subprocess.run(adapt, env=environment, check=True, capture_output=True).stdout)
    config["admin"] = {"disabled": True}
    config["apps"]["pki"] = {"certificate_authorities": {"local": {"install_trust": False}}}
    for server in config["apps"]["http"]["servers"].values():
        server["automatic_https"] = {"disable_redirects": True}
        server["listen"] = [f"127.0.0.1:{port}"]
    (directory / "caddy.json").write_text(json.dumps(config))
    with _running(["caddy", "run", "--config", str(directory / "caddy.json")], environment):
        yield


@contextmanager
def _running(command: list[str], environment: dict[str, str] | None = None) -> Iterator[None]:
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


async def _health(port: int, tls: ssl.SSLContext | None) -> str:
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls, server_hostname=tls and "localhost")
        with contextlib.closing(writer):
            writer.write(head_of("GET", "/health", [(b"host", b"localhost"), (b"connection", b"close")]))
            return str((await read_reply(reader)).status)


def hold(port: int, half: bytes, connections: int, seconds: float, closed_after: Connection) -> None:
    """In a process of its own, and of a lower priority: it would delay the requests that are measured."""
    os.nice(15)
    raise_file_limit(connections)
    ended: list[float] = []
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:

        def note_closed(timeout: float) -> None:
            for key, _ in selector.select(timeout):
                with contextlib.suppress(ConnectionError):
                    if key.fileobj.recv(4096):  # type: ignore[union-attr]
                        continue
                selector.unregister(key.fileobj)
                ended.append(time.monotonic() - key.data)

        deadline = time.monotonic() + seconds
        for number in range(connections):
            with contextlib.suppress(OSError):
                client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
                client.sendall(half)
                selector.register(client, selectors.EVENT_READ, time.monotonic())
            if number % 200 == 0:
                note_closed(0)
        while time.monotonic() < deadline:
            note_closed(0.2)
    closed_after.send(ended)


async def measure(port: int, *, connections: int, seconds: float, is_proxy: bool) -> None:
    tls = ssl._create_unverified_context() if is_proxy else None  # noqa: S323 -- of this run
    while await _outcome(port, tls) != "200":  # noqa: ASYNC110 -- the proxy starts
        await asyncio.sleep(0.2)
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    half = HALF_GREETING if is_proxy else HALF_HEAD
    attacker = context.Process(target=hold, args=(port, half, connections, seconds, sender))
    attacker.start()
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    while not receiver.poll():
        asked = time.monotonic()
        outcomes[await _outcome(port, tls)] += 1
        slowest = max(slowest, time.monotonic() - asked)
        await asyncio.sleep(0.1)
    ended = receiver.recv()
    attacker.join()
    longest = f"closed after up to {max(ended):.1f} s" if ended else "none closed"
    print(f"{connections} connections: /health {dict(outcomes)}, slowest {slowest:.2f} s; {len(ended)} {longest}")


async def _outcome(port: int, tls: ssl.SSLContext | None) -> str:
    try:
        return await _health(port, tls)
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        return type(error).__name__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=4000)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--before", choices=("nginx", "caddy"), help="what stands before the server")
    parser.add_argument("--port", type=int, default=None, help="the first of three that are used")
    arguments = parser.parse_args()
    raise_file_limit(arguments.connections)
    port = arguments.port or free_port()
    proxies = {"nginx": nginx, "caddy": caddy}
    options = {"connections": arguments.connections, "seconds": arguments.seconds}
    with running_octoadmin(port), tempfile.TemporaryDirectory(prefix="octo-proxy-") as directory:
        if arguments.before is None:
            asyncio.run(measure(port, is_proxy=False, **options))
            return
        with proxies[arguments.before](port + 1, port, Path(directory)):
            asyncio.run(measure(port + 1, is_proxy=True, **options))


if __name__ == "__main__":
    main()
