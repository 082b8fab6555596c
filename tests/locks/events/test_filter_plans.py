"""The history's filters use their indexes: a scan in order of time would read everything for a rare value."""

import pytest
from django.db import connection

from locks.events.history.filters import Filter, Visibility, select
from locks.token_format import parse

pytestmark = pytest.mark.django_db


def plan(filters: Filter, *, space_id: int) -> str:
    """In a table with few rows the planner takes any index, so the one that all filters could use is dropped."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("DROP INDEX event_of_space, event_of_lock, event_of_kind")
    return select(Visibility(space_id=space_id), filters).explain()


@pytest.mark.parametrize("filters", [{"owner": "runner-7"}, {"actor": "olga"}, {"owner": "a", "actor": "b"}])
def test_owner_and_actor_use_the_index_of_terms(space, filters) -> None:
    assert "Index Cond: (ARRAY[hashtextextended(owner, space_id)" in plan(Filter(**filters), space_id=space.pk)


def test_a_token_uses_the_index_of_terms(space, worker_token) -> None:
    presented = parse(worker_token)
    assert presented is not None
    filters = Filter(token=presented.public_id)
    assert "Index Cond: (ARRAY[hashtextextended(owner, space_id)" in plan(filters, space_id=space.pk)


def test_a_request_uses_its_bloom_filter(space) -> None:
    assert "Index Cond: (request_id = " in plan(Filter(request_id="req_1"), space_id=space.pk)
