"""Decodes and validates requests; the error says what is wrong."""

from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest

from locks.api.errors import ApiError, Code, invalid_input
from locks.api.schemas import MAX_LOCK_DELAY_SECONDS
from locks.engine.names import VERBS, InvalidPath, Rules, canonical_name, canonical_prefix, validate
from locks.models.space import MAX_TTL_SECONDS
from locks.pagination import InvalidCursor, decode

MAX_BODY = 64 * 1024
# A thousand leases do not fit into 64 KiB.
MAX_BULK_BODY = 512 * 1024

Message = TypeVar("Message")
Key = TypeVar("Key", bound=msgspec.Struct)


def parse_body(request: HttpRequest, decoder: "msgspec.json.Decoder[Message]", *, max_size: int = MAX_BODY) -> Message:
    body = _read_body(request, max_size)
    if not body:
        # No body means no fields. Whether fields are required, the message type says.
        body = b"{}"
    elif request.content_type != "application/json":
        raise invalid_input(415, "Send JSON, with the header 'Content-Type: application/json'.")
    try:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            # In JSON 60.0 and 60 are the same number. Converted only after an error, so that valid requests stay fast.
            return msgspec.convert(_with_integers(msgspec.json.decode(body)), decoder.type)
    except msgspec.ValidationError as error:
        raise invalid_input(422, f"{error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise invalid_input(400, "The body must be JSON in UTF-8.") from None


def _with_integers(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _with_integers(item) for key, item in value.items()}
        case list():
            return [_with_integers(item) for item in value]
    return value


def _read_body(request: HttpRequest, max_size: int) -> bytes:
    # The server has read the body and set its length.
    if int(request.META.get("CONTENT_LENGTH") or 0) > max_size:
        raise invalid_input(413, f"The body may have at most {max_size} bytes.")
    return request.body


# Stands for `%2F` in the path that Django resolves (octoadmin.http.middleware): no decoded path contains it.
ENCODED_SLASH = "\udc2f"


def name_in_path(text: str, rules: Rules) -> str:
    """The lock name in a path. `/locks/deploy/release` would be ambiguous, so it is refused as a name; with `%2F` it is
    one."""
    _, slash, last = text.rpartition("/")
    if slash and last in VERBS:
        details = f"Send the slash before {last!r}, which is a verb of this API, as %2F."
        raise ApiError(400, Code.INVALID_LOCK_NAME, details)
    return check_name(text.replace(ENCODED_SLASH, "/"), rules)


def check_name(name: str, rules: Rules) -> str:
    """The name, in the canonical form of its namespace."""
    try:
        name = canonical_name(name, rules)
    except InvalidPath as refusal:
        raise ApiError(400, Code.INVALID_LOCK_NAME, str(refusal)) from None
    if error := validate(name):
        raise ApiError(400, Code.INVALID_LOCK_NAME, error)
    return name


def check_names(names: list[str], rules: Rules) -> list[str]:
    """In the given order, without duplicates."""
    return list(dict.fromkeys(check_name(name, rules) for name in names))


def check_prefix(prefix: str, rules: Rules) -> str:
    try:
        return canonical_prefix(prefix, rules)
    except InvalidPath as error:
        raise invalid_input(422, f"prefix: {error}") from None


def check_ttl(ttl_seconds: int | None) -> int | None:
    if ttl_seconds is not None and not 1 <= ttl_seconds <= MAX_TTL_SECONDS:
        raise invalid_ttl(None)
    return ttl_seconds


def check_delay(seconds: int | None) -> int | None:
    if seconds is not None and not 0 <= seconds <= MAX_LOCK_DELAY_SECONDS:
        raise invalid_input(400, f"lock_delay_seconds must be a whole number from 0 to {MAX_LOCK_DELAY_SECONDS}.")
    return seconds


def invalid_ttl(max_ttl: int | None) -> ApiError:
    limit = f"{max_ttl}" if max_ttl else "the maximum of the space"
    return ApiError(400, Code.INVALID_TTL, f"ttl_seconds must be a whole number from 1 to {limit}.")


def check_text(field: str, text: str | None) -> str | None:
    """PostgreSQL stores any character except NUL."""
    if text is not None and "\0" in text:
        raise invalid_input(422, f"{field} may not contain the character NUL.")
    return text


def query_choice(request: HttpRequest, name: str, choices: tuple[str, ...]) -> str:
    """The first choice is the default."""
    value = request.GET.get(name, choices[0])
    if value not in choices:
        raise invalid_input(422, f"{name} must be one of: {', '.join(choices)}.")
    return value


def query_flag(request: HttpRequest, name: str) -> bool:
    """False unless it is given."""
    value = request.GET.get(name, "false").lower()
    if value not in ("true", "false"):
        raise invalid_input(422, f"{name} must be true or false.")
    return value == "true"


def query_text(request: HttpRequest, name: str) -> str | None:
    value = request.GET.get(name)
    return check_text(name, value) if value else None


def query_number(request: HttpRequest, name: str, *, default: int, minimum: int, maximum: int) -> int:
    text = request.GET.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and minimum <= int(text) <= maximum):
        raise invalid_input(422, f"{name} must be a whole number from {minimum} to {maximum}.")
    return int(text)


def query_cursor(request: HttpRequest, key: type[Key]) -> Key | None:
    try:
        return decode(text, key) if (text := request.GET.get("cursor")) else None
    except InvalidCursor:
        raise invalid_input(422, "cursor must be one that another page of this list has answered.") from None


def decoder(message: type[Any]) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(message)
