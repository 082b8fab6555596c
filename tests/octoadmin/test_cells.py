"""Two installations behind haproxy, which routes by the token alone."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from locks import token_format
from tests import database
from tests.clusters import create_space, has
from tests.polling import until
from tests.servers import PROJECT_DIR, Api, free_port, running_server

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(not has("haproxy"), reason="haproxy is not installed: apt-get install haproxy"),
]


@contextmanager
def haproxy(*, log: Path, **addresses: str) -> Iterator[int]:
    port = free_port()
    program = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None
    environment = os.environ | {"OCTO_LISTEN": f"127.0.0.1:{port}"} | addresses
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "-f", PROJECT_DIR / "deploy/haproxy/cells.cfg"], env=environment, stdout=output, stderr=output
        )
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def second_database(committed: None) -> Iterator[str]:
    name = f"{os.environ[database.TEMPLATE]}_cell_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    database.create_copy(name)
    yield database.conninfo(name)
    with database.maintenance() as connection:
        database.drop(connection, name)


@contextmanager
def cell(name: str) -> Iterator[int]:
    """Its port. Answers every request with its name."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(name.encode())

        def log_message(self, *_arguments: object) -> None:
            """Not into the test's output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def test_haproxy_routes_by_token_and_by_host_name(tmp_path: Path) -> None:
    with (
        cell("a1") as a1,
        cell("b2") as b2,
        haproxy(log=tmp_path / "log", OCTO_CELL_A1=f"127.0.0.1:{a1}", OCTO_CELL_B2=f"127.0.0.1:{b2}") as port,
    ):
        until(lambda: _answers(Api(port, token_format.generate("b2"))), "haproxy answers")
        for token, host, expected in (
            (token_format.generate("a1"), "localhost", b"a1"),
            (token_format.generate("b2"), "localhost", b"b2"),
            # The token decides, whatever the name of the host.
            (token_format.generate("b2"), "a1.example.org", b"b2"),
            (None, "b2.example.org", b"b2"),
            (None, "localhost", b"a1"),
            (token_format.generate("zz"), "localhost", b"a1"),
        ):
            api = Api(port, token)
            assert api.call("GET", "/locks", Host=host).content == expected, (token, host)
            api.close()


@pytest.mark.long
def test_a_token_leads_to_its_cell(second_database: str, tmp_path: Path) -> None:
    urls = {"a1": os.environ["DATABASE_URL"], "b2": second_database}
    tokens = {cell: create_space(url, OCTO_CELL=cell) for cell, url in urls.items()}
    assert [token_format.parse(tokens[cell]).public_id[:2] for cell in urls] == ["a1", "b2"]
    with (
        running_server(urls["a1"], OCTO_CELL="a1") as a1,
        running_server(urls["b2"], OCTO_CELL="b2") as b2,
        haproxy(
            log=tmp_path / "haproxy.log", OCTO_CELL_A1=f"127.0.0.1:{a1.port}", OCTO_CELL_B2=f"127.0.0.1:{b2.port}"
        ) as port,
    ):
        clients = {cell: Api(port, token) for cell, token in tokens.items()}
        for cell, api in clients.items():
            until(lambda api=api: _answers(api), f"cell {cell} answers")
        # The same name is another lock in each cell.
        for api in clients.values():
            assert api.call("POST", "/locks/deploy/acquire").json()["status"] == "acquired"
            assert api.call("POST", "/locks/deploy/acquire").json()["status"] == "held"
        assert b2.api(tokens["b2"]).call("GET", "/locks/deploy").json()["status"] == "held"
        # A token that is issued through the balancer stays in its cell.
        issued = clients["b2"].call("POST", "/tokens", {"name": "second", "scopes": ["locks:read"]})
        assert issued.status == 201, issued.content
        second = Api(port, issued.json()["token"])
        assert second.call("GET", "/locks/deploy").json()["status"] == "held"
        # A token of no cell is refused by one of them.
        stranger = Api(port, token_format.generate("zz"))
        assert stranger.call("GET", "/locks").status == 401
        for api in (*clients.values(), second, stranger):
            api.close()


def _answers(api: Api) -> bool:
    try:
        return api.call("GET", "/whoami").status == 200
    except OSError:
        return False
