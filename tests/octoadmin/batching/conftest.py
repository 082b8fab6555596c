import pytest

from locks.api.limits import limits
from locks.api.usage_flusher import usage_flusher


@pytest.fixture(autouse=True)
def _fresh_process_state() -> None:
    limits.reset()
    usage_flusher.reset()
