"""The short form of tests.torture.neighbour: nothing is lost, and every answer is one of the contract."""

import asyncio

import pytest

from tests.conftest import issue
from tests.torture.neighbour import measure
from tests.torture.well_behaved import CALLS

pytestmark = pytest.mark.timeout(240)

HOSTILE_SCOPES = ("locks:read", "locks:write", "audit:read", "webhooks:manage")


def test_a_hostile_space_costs_its_neighbour_no_lease(server, space, red_space, worker_token):
    hostile_token = issue(red_space, "hostile", *HOSTILE_SCOPES)
    turns = asyncio.run(measure(port=server.port, token=worker_token, hostile_token=hostile_token, seconds=4, rounds=1))
    for each in turns:
        assert each.phase.lost == []
        assert each.phase.broken == []
        assert all(each.phase.seconds[call] for call in CALLS)
