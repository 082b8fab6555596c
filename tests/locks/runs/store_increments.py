"""A process that increments a counter of the store by compare-and-swap, for test_store_concurrency.py."""

import sys

from tests.servers import Api


def increment(port: int, token: str, count: int) -> None:
    api = Api(port, token)
    done = 0
    while done < count:
        entry = api.call("GET", "/kv/shared/counter").json()
        response = api.call(
            "PUT", "/kv/shared/counter", {"value": entry["value"] + 1, "expected_version": entry["version"]}
        )
        assert response.status in (200, 412), response.content
        done += response.status == 200


if __name__ == "__main__":
    increment(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
