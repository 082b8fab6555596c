"""Queries kept as SQL files, run on this thread's Django connection."""

from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from django.db import connection

Row = TypeVar("Row")


class SqlFiles:
    """The SQL files below a directory, each known by its path without the ending."""

    def __init__(self, directory: Path) -> None:
        self._read = cache(lambda name: (directory / f"{name}.sql").read_text())

    def fetch(self, name: str, row: type[Row], parameters: dict[str, Any]) -> list[Row]:
        """`row` is a dataclass with a field for every column, or `dict`."""
        with connection.cursor() as cursor:
            cursor.execute(self._read(name), parameters)
            columns = [column.name for column in cursor.description or ()]
            return [row(**dict(zip(columns, values, strict=True))) for values in cursor.fetchall()]
