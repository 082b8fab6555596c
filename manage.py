#!/usr/bin/env python
"""The `octoadmin` command of a checkout."""

from octoadmin.__main__ import main

if __name__ == "__main__":
    main()
