"""The servers that tests start are told from other programs on their port."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tests.servers import RunningServer


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


def test_another_program_that_answers_on_the_port_is_not_taken_for_the_server() -> None:
    with HTTPServer(("127.0.0.1", 0), Healthy) as other:
        thread = Thread(target=other.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            with pytest.raises(AssertionError, match="the server has stopped"):
                RunningServer("dbname=none", port=other.server_port).start()
        finally:
            other.shutdown()
            thread.join()
