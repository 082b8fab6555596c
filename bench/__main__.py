"""`make bench` runs the comparison and writes docs/benchmark.md; `python -m bench pages` measures each page,
`python -m bench store` the store of runs, `python -m bench ceiling` what one core of PostgreSQL serves.

They use an embedded PostgreSQL of their own, with production settings.
"""

import argparse

from bench import setup


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("part", nargs="?", choices=("pages", "store", "ceiling"))
    part = parser.parse_args().part
    with setup.environment() as environment:
        # Imported here because models need Django to be set up.
        if part == "pages":
            from bench import pages

            pages.run(environment)
        elif part == "store":
            from bench import store

            print(*store.lines(store.measure(environment)), sep="\n")
        elif part == "ceiling":
            from bench import ceiling

            print(*ceiling.lines(ceiling.measure(environment)), sep="\n")
        else:
            from bench import report

            report.run(environment)


if __name__ == "__main__":
    main()
