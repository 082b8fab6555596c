"""A Sphinx extension: pages of the reference that are made from the code, so that they are never old."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parent.parent
GENERATED = Path(__file__).parent / "generated"


def command_line() -> str:
    """From the parser of `octo`."""
    from octo.cli.commands import COMMANDS, GLOBAL
    from octo.cli.output import ExitCode

    lines = [
        "# The command line",
        "",
        "Every command of `octo`, with its options. [The guide](../cli.md) explains them.",
        "",
        "## Options of every command",
        "",
        *_arguments(GLOBAL),
        "",
        "## Exit codes",
        "",
        "| code | name |",
        "|---|---|",
        *(f"| {int(code)} | {code.name.lower().replace('_', ' ')} |" for code in ExitCode),
        "",
    ]
    for command in COMMANDS:
        lines += [f"## octo {command.path}", "", f"{command.summary}.", "", *_arguments(command.arguments), ""]
        if command.examples:
            lines += ["```", *command.examples.splitlines(), "```", ""]
    return "\n".join(lines)


def _arguments(arguments: Any) -> Iterator[str]:
    if not arguments:
        return
    yield "| argument | meaning |"
    yield "|---|---|"
    for argument in arguments:
        placeholder = argument.settings.get("metavar", "")
        names = ", ".join(
            f"`{f'{name} {placeholder}' if name.startswith('-') else name}`".replace(" `", "`")
            for name in argument.names
        )
        choices = argument.settings.get("choices")
        meaning = argument.settings.get("help", "") + (f" ({', '.join(choices)})" if choices else "")
        yield f"| {names} | {_cell(meaning)} |"


def http(schema: dict[str, Any]) -> str:
    """From the OpenAPI document."""
    lines = [
        "# The HTTP API",
        "",
        "Every path, with its parameters, bodies and errors, from `/openapi.json`. `/docs` lets you try requests.",
        "[Errors](../errors.md) explains the codes, [limits](limits.md) lists all limits.",
        "",
    ]
    by_tag: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            if isinstance(operation, dict) and "responses" in operation:
                by_tag.setdefault((operation.get("tags") or ["Other"])[0], []).append((method, path, operation))
    for tag, operations in by_tag.items():
        lines += [f"## {tag}", ""]
        for method, path, operation in operations:
            lines += _operation(schema, method, path, operation)
    return "\n".join(lines)


def limits() -> str:
    """From the constants of the code and the fields of a space."""
    from django.conf import settings

    from locks.api import acl, lease_options, limits, parsing, schemas
    from locks.api.views import bulk, watch
    from locks.engine import names
    from locks.events.history import export
    from locks.models import Space
    from locks.models.session import MAX_SESSION_SECONDS, MIN_SESSION_SECONDS
    from locks.models.space import MAX_METADATA, MAX_TTL_SECONDS
    from locks.runs import kv, kv_paths
    from locks.services import webhooks

    chosen = [
        field for field in Space._meta.get_fields() if field.name.startswith(("max_", "default_ttl", "requests_per"))
    ]
    fixed = {
        "length of a lock name, in bytes": names.MAX_NAME_BYTES,
        "TTL that a space can allow, in seconds": MAX_TTL_SECONDS,
        "length of metadata that a space can allow, in characters": MAX_METADATA,
        "`wait_seconds`": schemas.MAX_WAIT_SECONDS,
        "`lock_delay_seconds`": schemas.MAX_LOCK_DELAY_SECONDS,
        "TTL of a session, in seconds": f"{MIN_SESSION_SECONDS} to {MAX_SESSION_SECONDS:,}",
        "length of an `Idempotency-Key`": lease_options.MAX_KEY,
        "entries of an access list": acl.MAX_PRINCIPALS,
        "body of a request, in bytes": parsing.MAX_BODY,
        "body of a request for several names, in bytes": parsing.MAX_BULK_BODY,
        "locks of a list without pages": bulk.MAX_UNPAGED,
        "requests of a token in a second, unless the space has its own": settings.REQUESTS_PER_SECOND,
        "requests of all tokens of a space together": f"{limits.SPACE_FACTOR} times those of one token",
        "wrong tokens of an address in a minute": settings.FAILED_AUTHENTICATIONS_PER_MINUTE,
        "watch streams of a server process": watch.MAX_WATCHERS,
        "watch streams of a team in a server process": watch.MAX_WATCHERS_PER_TEAM,
        "exports at the same time: user or token, team, process": " / ".join(
            str(each) for each in (export.MAX_EXPORTS_PER_ACTOR, export.MAX_EXPORTS_PER_TEAM, export.MAX_EXPORTS)
        ),
        "webhooks of a space": webhooks.MAX_WEBHOOKS_PER_SPACE,
        "a value in the store of a run, in bytes": kv.MAX_VALUE_BYTES,
        "the store of a layer, in bytes": kv.MAX_LAYER_BYTES,
        "entries in the store of a layer": kv.MAX_LAYER_KEYS,
        "a path in the store, in bytes": kv_paths.MAX_PATH_BYTES,
    }
    return "\n".join(
        [
            "# Limits",
            "",
            "What exceeds a limit is refused with an [error](../errors.md).",
            "[The HTTP API](http.md) has the limits of single fields.",
            "",
            "## Of a space",
            "",
            "Admins of the team change them on the page *Team*.",
            "",
            "| limit | default | meaning |",
            "|---|---:|---|",
            *(f"| `{each.name}` | {_number(each.default)} | {_cell(each.help_text)} |" for each in chosen),
            "",
            "## Of every installation",
            "",
            "The rates are settings: see [configuration](../configuration.md).",
            "",
            "| limit | value |",
            "|---|---:|",
            *(f"| {name} | {_number(value)} |" for name, value in fixed.items()),
            "",
        ]
    )


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else (str(value) if isinstance(value, str) else "none")


def _operation(schema: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {method.upper()} `{path}`"
    yield ""
    yield " ".join(filter(None, (operation.get("summary", "").rstrip(".") + ".", operation.get("description", ""))))
    yield ""
    fields = [
        (one["name"], one["in"], one["schema"], one.get("required", False), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    fields += [
        (name, "body", field, required, field.get("description", ""))
        for name, field, required in _properties(schema, body)
    ]
    if fields:
        yield "| field | in | type | meaning |"
        yield "|---|---|---|---|"
        for name, place, field, required, meaning in fields:
            needed = "" if required else "optional; "
            yield f"| `{name}` | {place} | {_cell(_type(schema, field))} | {_cell(needed + meaning)} |"
        yield ""
    yield "| status | answer |"
    yield "|---|---|"
    for status, response in sorted(operation["responses"].items()):
        content = response.get("content", {})
        answered = next(iter(content.values()), {}).get("schema")
        names = ", ".join(f"`{name}`" for name, _, _ in _properties(schema, answered)) if status < "400" else ""
        yield f"| {status} | {_cell(response.get('description', ''))} {names} |"
    yield ""


def _resolve(schema: dict[str, Any], part: dict[str, Any] | None) -> dict[str, Any]:
    while part and "$ref" in part:
        part = schema["components"]["schemas"][part["$ref"].rpartition("/")[2]]
    return part or {}


def _properties(schema: dict[str, Any], part: dict[str, Any] | None) -> Iterator[tuple[str, dict[str, Any], bool]]:
    part = _resolve(schema, part)
    required = part.get("required", ())
    for name, field in part.get("properties", {}).items():
        yield name, field, name in required


def _type(schema: dict[str, Any], field: dict[str, Any]) -> str:
    if "$ref" in field:
        return field["$ref"].rpartition("/")[2]
    for union in ("oneOf", "anyOf"):
        if union in field:
            return " or ".join(_type(schema, one) for one in field[union])
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    kind = field.get("type", "any")
    if isinstance(kind, list):
        kind = " or ".join(kind)
    if kind == "array":
        kind = f"list of {_type(schema, field.get('items', {}))}"
    bounds = [
        f"{label} {field[key]}"
        for key, label in (
            ("minimum", "from"),
            ("maximum", "to"),
            ("minLength", "min length"),
            ("maxLength", "max length"),
            ("maxItems", "max items"),
            ("default", "default"),
        )
        if key in field
    ]
    return ", ".join([kind, *bounds])


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "\\<")


def _schema() -> dict[str, Any]:
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "octoadmin.settings")
    sys.path.insert(0, str(PROJECT))
    import django

    django.setup()
    from drf_spectacular.generators import SchemaGenerator

    document: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return document


# Documents beside docs/ that are pages of the site.
_BESIDE = {
    "CHANGELOG.md": "changes",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security-reports",
    "THREAT_MODEL.md": "threat-model",
}
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#|/)([^)#]+)(#[^)]*)?\)")


def link_to_repository(document: Path, text: str) -> str:
    """In a checkout, documents link to any file of it. On the site such a file is a page, or only its path is shown."""

    def replace(link: re.Match[str]) -> str:
        words, target, anchor = link.groups()
        path = (document.parent / target).resolve().relative_to(PROJECT).as_posix()
        if path in _BESIDE:
            return f"[{words}](/generated/{_BESIDE[path]}.md{anchor or ''})"
        if path == "docs/decisions":
            return f"[{words}](/decisions/README.md)"
        if path.startswith("docs/"):
            return f"[{words}](/{path.removeprefix('docs/')}{anchor or ''})"
        return f"{words} (`{path}`)"

    return _LINK.sub(replace, text)


def on_source_read(app: Any, name: str, source: list[str]) -> None:
    if not name.startswith("generated/"):
        source[0] = link_to_repository(Path(app.env.doc2path(name)), source[0])


def generate(_app: Any) -> None:
    GENERATED.mkdir(exist_ok=True)
    pages = {"command-line": command_line(), "http": http(_schema()), "limits": limits()}
    for path, name in _BESIDE.items():
        pages[name] = link_to_repository(PROJECT / path, (PROJECT / path).read_text())
    for name, text in pages.items():
        (GENERATED / f"{name}.md").write_text(text)


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", generate)
    app.connect("source-read", on_source_read)
    return {"parallel_read_safe": True}
