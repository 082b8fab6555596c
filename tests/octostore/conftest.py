"""OctoStore's API as its documents describe it, on both paths, with and without the space's compatibility switch."""

import pytest

from locks.models import Space
from tests.locks.api.conftest import _fresh_process_state, call, each_path

__all__ = ["_fresh_process_state", "call", "each_path"]


@pytest.fixture
def compatible(each_path: object, space: Space) -> None:
    """The space is on OctoStore's terms. The path comes first: it decides how the database is used."""
    Space.objects.filter(pk=space.pk).update(octostore_compatibility=True)


@pytest.fixture(params=["own terms", "octostore's terms"])
def either_terms(request: pytest.FixtureRequest, each_path: object) -> None:
    """For what is the same with and without the switch."""
    if request.param == "octostore's terms":
        request.getfixturevalue("compatible")
