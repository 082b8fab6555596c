"""Runs the SQL files that stand beside the pages, on this thread's Django connection."""

from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from django.db import connection

Row = TypeVar("Row")
_DIRECTORY = Path(__file__).parent


@cache
def _text(name: str) -> str:
    return (_DIRECTORY / f"{name}.sql").read_text()


def fetch(name: str, row: type[Row], parameters: dict[str, Any]) -> list[Row]:
    """`row` is a dataclass with a field for every column."""
    with connection.cursor() as cursor:
        cursor.execute(_text(name), parameters)
        columns = [column.name for column in cursor.description or ()]
        return [row(**dict(zip(columns, values, strict=True))) for values in cursor.fetchall()]
