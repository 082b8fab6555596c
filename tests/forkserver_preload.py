"""Imported by the fork server: it ends with the process of the tests, and the servers forked from it end with it."""

import octo.cli.commands
import octo.cli.context
import octo.cli.locks
import octo.cli.output
import octo.cli.run
import octo.client  # noqa: F401 -- what most command lines import
from tests.forkserver import end_with_parent

end_with_parent()
