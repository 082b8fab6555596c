"""The real server, over real sockets."""

import http.client
import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from octoadmin.wsgi_bridge.request_body import MAX_BODY
from tests.servers import Api, running_server


class Server:
    def __init__(self, port: int) -> None:
        self.port = port

    def connect(self) -> "closing[http.client.HTTPConnection]":
        return closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30))

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        with closing(Api(self.port)) as api:
            reply = api.call("GET", path, **headers)
            return reply.status, {k.lower(): v for k, v in reply.headers.items()}, reply.content

    def say(self, raw: bytes) -> bytes:
        """What the server answers before it hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as talk:
            talk.sendall(raw)
            return b"".join(iter(lambda: talk.recv(65536), b""))


@pytest.fixture(scope="module")
def server(django_db_setup: None) -> Iterator[Server]:
    with running_server(os.environ["DATABASE_URL"]) as running:
        yield Server(running.port)
        assert running.process is not None
        running.process.terminate()
        assert running.process.wait(20) == 0


def test_concurrent_requests_have_their_own_ids(server: Server) -> None:
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(server.get, ["/status"] * 300))
    assert {status for status, _, _ in replies} == {200}
    assert len({headers["x-request-id"] for _, headers, _ in replies}) == 300


def test_one_connection_serves_several_requests(server: Server) -> None:
    with server.connect() as connection:
        for method, path in [("GET", "/status"), ("HEAD", "/status"), ("POST", "/status"), ("GET", "/health")]:
            connection.request(method, path, body=b"x" * 1000 if method == "POST" else None)
            reply = connection.getresponse()
            reply.read()
            assert reply.status in (200, 403, 405)


def test_a_large_body_is_rejected_before_it_was_sent(server: Server) -> None:
    with server.connect() as connection:
        connection.putrequest("POST", "/status")
        connection.putheader("Content-Length", str(MAX_BODY + 1))
        connection.endheaders(b"the beginning")
        reply = connection.getresponse()
        assert reply.status == 413
        assert b'"code":"invalid_input"' in reply.read()


@pytest.mark.parametrize(
    "start",
    [
        b"GET /caf\xc3\xa9 HTTP/1.1", b"GET", b"\x16\x03\x01\x02",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: many",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 2",
    ],
)  # fmt: skip
def test_malformed_http_gets_a_400(server: Server, start: bytes) -> None:
    answer = server.say(start + b"\r\nConnection: close\r\n\r\n")
    assert b" 400 Bad Request\r\n" in answer


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nHost: a\r\nHost: b", b"GET / HTTP/1.1", b"GET / HTTP/1.0"])
def test_a_wrong_or_missing_host_gets_the_error_of_the_contract(server: Server, start: bytes) -> None:
    answer = server.say(start + b"\r\nConnection: close\r\n\r\n")
    assert b" 400 Bad Request\r\n" in answer
    assert re.search(rb'"code":"invalid_input".*"request_id":"req_[0-9a-f]{32}"', answer)


def test_metrics_count_what_was_served(server: Server) -> None:
    server.get("/status")
    _, headers, body = server.get("/metrics")
    assert headers["content-type"].startswith("text/plain")
    counted = re.search(rb'octoadmin_requests_total{kind="django",method="GET",status="2xx"} (\S+)', body)
    assert counted is not None
    assert float(counted[1]) >= 1
    assert b"octoadmin_requests_in_flight 1.0" in body


def test_forwarded_headers_of_a_client_are_ignored(server: Server) -> None:
    headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.5"}
    assert "strict-transport-security" not in server.get("/status", **headers)[1]
