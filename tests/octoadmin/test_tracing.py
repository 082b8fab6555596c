"""OpenTelemetry: what a collector gets of requests on both paths, and nothing at all unless it is asked for."""

import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from octoadmin.environment import Environment, EnvironmentProblem, environment
from tests.polling import until
from tests.servers import PROJECT_DIR, RunningServer, running_server

pytestmark = pytest.mark.timeout(120)

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(ThreadingHTTPServer):
    """Receives OTLP over HTTP on the loopback interface."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def find(self, **attributes: Any) -> Any:
        """The one span with these attributes, once it has arrived."""

        def found() -> Any:
            return next((span for span in self.spans if attributes.items() <= attributes_of(span).items()), None)

        return until(found)

    def children(self, span: Any) -> list[Any]:
        return [each for each in self.spans if each.parent_span_id == span.span_id]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.server.spans.extend(scope.spans)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


def attributes_of(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        thread = Thread(target=collector.serve_forever)
        thread.start()
        yield collector
        collector.shutdown()
        thread.join()


@pytest.fixture
def traced(committed: None, collector: Collector) -> Iterator[RunningServer]:
    with running_server(
        os.environ["DATABASE_URL"], OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_BSP_SCHEDULE_DELAY="50"
    ) as server:
        yield server


def test_a_request_is_a_span_with_its_id_and_its_statement(
    traced: RunningServer, collector: Collector, worker_token: str
) -> None:
    api = traced.api(worker_token)
    traceparent = f"00-{TRACE}-{PARENT}-01"

    fast = api.call("POST", "/locks/deploy/acquire", {"ttl_seconds": 30}, traceparent=traceparent)
    assert fast.status == 200
    span = collector.find(**{"octoadmin.request_id": fast.headers["X-Request-Id"]})
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert attributes_of(span)["http.response.status_code"] == 200
    assert attributes_of(span)["url.path"] == "/locks/deploy/acquire"
    batch = until(lambda: collector.children(span))
    assert [(each.name, attributes_of(each)["db.operation.batch.size"]) for each in batch] == [("acquire", 1)]

    # Django's thread has the same parent, and so do the queries of the ORM.
    slow = api.call("POST", "/locks/claim-next", {"names": ["a", "b"]}, traceparent=traceparent)
    assert slow.status == 200
    span = collector.find(**{"octoadmin.request_id": slow.headers["X-Request-Id"]})
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert "claim_next" in until(lambda: [each.name for each in collector.children(span)])

    # Without a traceparent a request begins a trace.
    listed = api.call("GET", "/tokens?secret=not-in-a-span")
    span = collector.find(**{"octoadmin.request_id": listed.headers["X-Request-Id"]})
    assert span.parent_span_id == b""
    assert span.trace_id.hex() != TRACE
    sent = b"".join(each.SerializeToString() for each in collector.spans).decode("latin-1")
    assert worker_token not in sent
    assert fast.json()["lease_id"] not in sent
    assert "not-in-a-span" not in sent


def test_nothing_is_imported_unless_an_endpoint_is_set() -> None:
    loaded = "import sys, octoadmin.asgi; sys.exit('opentelemetry.sdk' in sys.modules)"
    subprocess.run([sys.executable, "-c", loaded], cwd=PROJECT_DIR, check=True)


def test_an_endpoint_needs_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert Environment().otel_exporter_otlp_endpoint
    monkeypatch.setattr("octoadmin.environment.find_spec", lambda _name: None)
    with pytest.raises(EnvironmentProblem, match=r"octoadmin\[otel\]"):
        environment.__wrapped__()
