"""TLS: a private CA, client certificates, no connection to a server that is not trusted; and HTTP/2."""

import http.server
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from octo import Client, ConfigurationError, TransportError
from tests.servers import PROJECT_DIR, free_port

LOCK = b'{"name": "a", "status": "free", "fencing_token": 0}'


def certificate(directory: Path, name: str, issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None):
    """Written as NAME.pem and NAME.key; a CA if it has no issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signer, signing_key = issuer or (None, key)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer.subject if signer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
        .sign(signing_key, hashes.SHA256())
    )
    (directory / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / f"{name}.key").write_bytes(private)
    return made, key


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(LOCK)))
        self.end_headers()
        self.wfile.write(LOCK)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path) -> Iterator[str]:
    """Wants a client's certificate."""
    authority = certificate(tmp_path, "ca", None)
    for name in ("server", "client"):
        certificate(tmp_path, name, authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    context.load_verify_locations(tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.handle_error = lambda *_: None
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield f"https://localhost:{listening.server_address[1]}"
    listening.shutdown()
    thread.join()
    listening.server_close()


def test_a_private_ca_and_a_client_certificate(server, tmp_path, monkeypatch):
    files = {"ca_file": "ca.pem", "client_cert": "client.pem", "client_key": "client.key"}
    arguments = {name: str(tmp_path / file) for name, file in files.items()}
    with Client(server, "token", **arguments) as client:
        assert client.inspect("a").status == "free"
    for name, path in arguments.items():
        monkeypatch.setenv(f"OCTO_{name.upper()}", path)
    with Client(server, "token") as client:
        assert client.inspect("a").status == "free"


def test_no_trust_no_answer(server, tmp_path):
    for arguments in ({}, {"ca_file": str(tmp_path / "ca.pem")}):
        with Client(server, "token", retry_for=0, **arguments) as client, pytest.raises(TransportError):
            client.inspect("a")
    with Client(server, "token", ca_file=str(tmp_path / "missing")) as client, pytest.raises(ConfigurationError):
        client.inspect("a")


async def application(scope, receive, send) -> None:
    """For granian: a lock whose owner is the version of the protocol."""
    if scope["type"] == "http":
        lock = {"name": "a", "status": "held", "fencing_token": 1, "owner": scope["http_version"]}
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(lock).encode()})


@pytest.fixture
def modern_server(tmp_path) -> Iterator[str]:
    """Speaks HTTP/1.1 and HTTP/2."""
    certificate(tmp_path, "server", certificate(tmp_path, "ca", None))
    port = free_port()
    files = ["--ssl-certificate", tmp_path / "server.pem", "--ssl-keyfile", tmp_path / "server.key"]
    with subprocess.Popen(
        [sys.executable, "-m", "granian", "--interface", "asgi", "--no-ws", "--port", str(port), *files,
         f"{__name__}:application"],
        cwd=PROJECT_DIR, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        assert any("Started worker" in line for line in process.stdout)
        yield f"https://localhost:{port}"
        process.terminate()


def test_http_2_is_an_option(modern_server, tmp_path):
    def protocol_of(*, http2: bool) -> str | None:
        with Client(modern_server, "token", ca_file=str(tmp_path / "ca.pem"), http2=http2) as client:
            return client.inspect("a").owner

    assert (protocol_of(http2=False), protocol_of(http2=True)) == ("1.1", "2")
