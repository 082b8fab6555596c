"""`make bench` runs the comparison and writes docs/benchmark.md; `python -m bench pages` measures each page.

Both use an embedded PostgreSQL of their own, with production settings.
"""

import sys

from bench import setup


def main() -> None:
    with setup.environment() as environment:
        # Imported here because models need Django to be set up.
        if sys.argv[1:] == ["pages"]:
            from bench import pages

            pages.run(environment)
        else:
            from bench import report

            report.run(environment)


if __name__ == "__main__":
    main()
