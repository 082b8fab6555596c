"""How PostgreSQL carries out a statement, as a tree of nodes."""

from collections.abc import Iterator
from typing import Any

import psycopg
from django.db import connection

from locks.engine.statements import Statement


def explain(statement: Statement[Any], parameters: list[Any]) -> dict[str, Any]:
    connection.ensure_connection()
    with psycopg.RawCursor(connection.connection) as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}", parameters, prepare=False)
        (answer,) = cursor.fetchone()
    return answer[0]["Plan"]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def assert_page_is_one_index_scan(plan: dict[str, Any], *, index: str, rows: int) -> None:
    """The page's rows come from one scan of the index, which reads no more of it and is not sorted after."""
    (limited,) = [node for node in nodes(plan) if node["Node Type"] == "Limit" and node["Actual Rows"] == rows]
    assert "Sort" not in [node["Node Type"] for node in nodes(limited)]
    (scan,) = [node for node in nodes(limited) if node.get("Relation Name") == "octo_lock"]
    assert (scan["Node Type"], scan.get("Index Name"), scan["Actual Rows"]) == ("Index Scan", index, rows), scan
