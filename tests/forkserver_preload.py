"""Imported by the fork server: it ends with the process of the tests, and the servers forked from it end with it."""

from tests.forkserver import end_with_parent

end_with_parent()
