"""`make bench` runs the comparison and writes docs/benchmark.md; `python -m bench pages` measures each page,
`python -m bench store` the store of runs.

They use an embedded PostgreSQL of their own, with production settings.
"""

import sys

from bench import setup


def main() -> None:
    with setup.environment() as environment:
        # Imported here because models need Django to be set up.
        if sys.argv[1:] == ["pages"]:
            from bench import pages

            pages.run(environment)
        elif sys.argv[1:] == ["store"]:
            from bench import store

            print(*store.lines(store.measure(environment)), sep="\n")
        else:
            from bench import report

            report.run(environment)


if __name__ == "__main__":
    main()
