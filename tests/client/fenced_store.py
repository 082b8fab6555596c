"""A store that remembers the highest fencing token and refuses writes with a lower one. Also a command:

python -m tests.client.fenced_store FILE TOKEN VALUE
"""

import fcntl
import json
import sys
from pathlib import Path


class Refused(Exception):
    """The token is older than one that has written already."""


def write(file: Path, *, fencing_token: int, value: str) -> None:
    with file.open("a+") as store:
        fcntl.flock(store, fcntl.LOCK_EX)
        store.seek(0)
        writes = [json.loads(line) for line in store]
        if writes and fencing_token < writes[-1]["fencing_token"]:
            raise Refused(f"{fencing_token} is older than {writes[-1]['fencing_token']}")
        store.write(json.dumps({"fencing_token": fencing_token, "value": value}) + "\n")


def values(file: Path) -> list[str]:
    return [json.loads(line)["value"] for line in file.read_text().splitlines()]


if __name__ == "__main__":
    try:
        write(Path(sys.argv[1]), fencing_token=int(sys.argv[2]), value=sys.argv[3])
    except Refused:
        sys.exit("refused")
