"""The OpenAPI document, generated from the msgspec types that the views decode and encode."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from locks.api.errors import ErrorBody
from locks.api.schemas import NAME_PATTERN, TEXT_PATTERN

View = TypeVar("View", bound=Callable[..., Any])

_REF = "#/components/schemas/{name}"
_COMMON_ERRORS = (429, 500, 503)
_TEXTS = {
    200: "Success.",
    201: "Created.",
    202: "Accepted: the delivery is queued.",
    204: "Success.",
    400: "Malformed request, or an invalid name, TTL or lease.",
    401: "The token is missing, unknown, revoked or expired.",
    403: "The token lacks the scope, the name is outside its prefixes, or the space has reached its limit of locks.",
    404: "No live lease, or not found.",
    409: "The fencing token has changed, the Idempotency-Key was used for another request, or the run is draining.",
    410: "The session has ended, or the position is older than the stored history. Start again.",
    412: "The version is not the expected one; `current_version` is the present one.",
    413: "The body is larger than 64 KiB, or a limit of the store is exceeded.",
    415: "The body is not JSON.",
    422: "A field is missing or has the wrong type.",
    429: "Too many requests; see Retry-After.",
    500: "Internal error; search the log for the request id.",
    503: "The database cannot be reached; see Retry-After.",
}
_types: list[Any] = [ErrorBody]

NAME = OpenApiParameter(
    "name",
    type={"type": "string", "minLength": 1, "maxLength": 256, "pattern": NAME_PATTERN},
    location=OpenApiParameter.PATH,
    description="Segments joined by `/` (or `%2F`), each of letters and digits of any script and `. _ - : @ + = ~`. "
    "A slash before a last segment that is a verb of this API (`deploy/release`) must be sent as `%2F`.",
    examples=[OpenApiExample("a deploy", "deploy-main"), OpenApiExample("a file", "path:src/auth.rs")],
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    type={"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    location=OpenApiParameter.HEADER,
    description="A retry with the same key returns the same lease, for when the first response was lost.",
)


@dataclass(frozen=True, kw_only=True)
class EventStream:
    """Server-Sent Events with data of these types."""

    description: str
    data: Sequence[type[msgspec.Struct]]


def query(name: str, type_: Any, description: str) -> OpenApiParameter:
    if type_ is OpenApiTypes.STR:
        type_ = {"type": "string", "pattern": TEXT_PATTERN}
    return OpenApiParameter(name, type=type_, location=OpenApiParameter.QUERY, description=description)


def describe(
    operation_id: str,
    summary: str,
    *,
    tag: str,
    responses: dict[int, Any] | None = None,
    body: type[msgspec.Struct] | None = None,
    body_required: bool = True,
    scope: str | None = None,
    parameters: Sequence[OpenApiParameter] = (),
    errors: Sequence[int] = (),
    examples: Sequence[OpenApiExample] = (),
    description: str = "",
    stream: EventStream | None = None,
    needs_token: bool = True,
) -> Callable[[View], View]:
    """Declares an operation. `body` and the values of `responses` are msgspec types; None is an empty response."""
    body_errors = (400, 413, 415, 422) if body is not None else ()
    token_errors = (401,) if needs_token else ()
    all_errors = sorted({*_COMMON_ERRORS, *token_errors, *errors, *body_errors, *((403,) if scope else ())})
    text = f"{description}\n\nScope: `{scope}`." if scope else description
    schemas = {status: _ref(message) for status, message in (responses or {}).items()}
    streamed: dict[Any, OpenApiResponse] = {}
    if stream is not None:
        schema = {"type": "string", "contentSchema": {"anyOf": [_ref(message) for message in stream.data]}}
        streamed[200, "text/event-stream"] = OpenApiResponse(schema, description=stream.description)
    for status in all_errors:
        error = _ref(ErrorBody)
        schemas[status] = {"anyOf": [schemas[status], error]} if status in schemas else error
    decorate: Callable[[View], View] = extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=text.strip(),
        tags=[tag],
        request={"application/json": _ref(body)} if body is not None else None,
        responses=streamed
        | {
            status if status == 204 else (status, "application/json"): OpenApiResponse(
                None if status == 204 else schemas[status], description=_TEXTS[status]
            )
            for status in sorted(schemas)
        },
        parameters=list(parameters),
        examples=list(examples),
        extensions=None if body is None or body_required else {"x-body-optional": True},
    )
    return decorate


def _ref(message: Any) -> dict[str, Any]:
    if message is None:
        return {"type": "null"}
    _types.append(message)
    (schema,), _components = msgspec.json.schema_components([message], ref_template=_REF)
    return schema


def add_components(result: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular: adds the msgspec types to the components."""
    _schemas, components = msgspec.json.schema_components(_types, ref_template=_REF)
    result["components"] = {
        "schemas": dict(sorted(components.items())),
        "securitySchemes": {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "bearerFormat": "octo_<public id>_<secret><checksum>",
            }
        },
    }
    for path in result["paths"].values():
        for operation in path.values():
            if "requestBody" in operation:
                operation["requestBody"]["required"] = not operation.pop("x-body-optional", False)
    return result


class EndpointSchema(AutoSchema):
    """Views are declared with `describe`; nothing is inferred from serializers."""

    def get_filter_backends(self) -> list[Any]:
        return []

    def get_auth(self) -> list[dict[str, list[str]]]:
        return [{"bearer": []}] if self.view.get_authenticators() else []


__all__ = ["IDEMPOTENCY_KEY", "NAME", "EventStream", "OpenApiTypes", "describe", "query"]
