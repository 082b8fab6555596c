"""`python -m octo` is `octo`."""

import sys

from octo.cli.main import main

sys.exit(main())
