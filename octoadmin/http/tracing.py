"""OpenTelemetry: a span for each request, with its statements below it. Imported only if an endpoint is set.

The SDK reads the usual variables: OTEL_EXPORTER_OTLP_*, OTEL_TRACES_SAMPLER, OTEL_BSP_*. Spans have no query strings,
no values of statements, no tokens and no lease ids.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django.conf import settings
from django.db.backends.signals import connection_created
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from locks import tracing
from octoadmin.http.asgi_types import Application, Message, Receive, Scope, Send

Result = TypeVar("Result")

STOP_SECONDS = 2.0

_TRACE_HEADERS = (b"traceparent", b"tracestate")
_DATABASE = {"db.system.name": "postgresql"}
_propagator = TraceContextTextMapPropagator()


class TracedApplication:
    """Hands its span to Django's threads, which have no context of the event loop, as the request's own traceparent."""

    def __init__(self, application: Application) -> None:
        self._application = application
        resource = Resource.create({"service.name": settings.OTEL_SERVICE_NAME, "service.version": settings.VERSION})
        # Without the SDK's handler at exit, which may wait for half a minute.
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracer = self._provider.get_tracer("octoadmin", settings.VERSION)

    def start(self) -> None:
        """In the process that serves: it starts a thread."""
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        tracing.tracer = StatementTracer(self._tracer)
        connection_created.connect(_trace_queries)

    def stop(self) -> None:
        """Sends what is left, and gives up on a collector that does not answer."""
        sending = threading.Thread(target=self._provider.shutdown, daemon=True)
        sending.start()
        sending.join(STOP_SECONDS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        carrier = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _TRACE_HEADERS}
        method, route = scope["method"], _route(scope["path"])
        attributes = {"http.request.method": method, "http.route": route, "url.path": scope["path"]}
        with self._tracer.start_as_current_span(
            f"{method} {route}", _propagator.extract(carrier), SpanKind.SERVER, attributes
        ) as span:
            own: dict[str, str] = {}
            _propagator.inject(own)
            headers = [pair for pair in scope["headers"] if pair[0] not in _TRACE_HEADERS]
            headers += [(name.encode(), value.encode()) for name, value in own.items()]

            async def send_traced(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe_response(span, message)
                await send(message)

            await self._application({**scope, "headers": headers}, receive, send_traced)


def _route(path: str) -> str:
    try:
        return f"/{resolve(path).route}"
    except Resolver404:
        return "unknown"


def _describe_response(span: Span, message: Message) -> None:
    status = message["status"]
    span.set_attribute("http.response.status_code", status)
    for name, value in message["headers"]:
        if name == b"x-request-id":
            span.set_attribute("octoadmin.request_id", value.decode())
    if status >= 500:
        span.set_status(StatusCode.ERROR)


class StatementTracer:
    """See locks.tracing."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def current(self) -> context.Context:
        return context.get_current()

    def run(self, name: str, execute: Callable[[], Result]) -> Result:
        with self._tracer.start_as_current_span(name, None, SpanKind.CLIENT, _DATABASE | {"db.operation.name": name}):
            return execute()

    def record_batch(self, name: str, parents: Sequence[context.Context], *, seconds: float) -> None:
        ended = time.time_ns()
        attributes: dict[str, str | int] = {
            **_DATABASE,
            "db.operation.name": name,
            "db.operation.batch.size": len(parents),
        }
        for parent in parents:
            span = self._tracer.start_span(
                name, parent, SpanKind.CLIENT, attributes, start_time=ended - int(seconds * 1e9)
            )
            span.end(ended)


class TracingMiddleware:
    """The statements of the view are below the span that TracedApplication has opened."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        carrier = {name: request.headers[name] for name in ("traceparent", "tracestate") if name in request.headers}
        attached = context.attach(_propagator.extract(carrier))
        try:
            return self._get_response(request)
        finally:
            context.detach(attached)


def _trace_queries(*, connection: Any, **_: Any) -> None:
    """The ORM's, which pages and the less frequent calls of the API use."""
    if _trace_query not in connection.execute_wrappers:
        connection.execute_wrappers.append(_trace_query)


def _trace_query(execute: Callable[..., Any], sql: Any, parameters: Any, many: bool, execution: Any) -> Any:
    name = str(sql).lstrip().partition(" ")[0].upper() or "SQL"
    return tracing.traced(name, execute, sql, parameters, many, execution)
