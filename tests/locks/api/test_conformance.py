"""The running API against its own schema, with everything schemathesis can think of."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from locks.models import Scope, Space
from locks.models.space import MAX_METADATA, MAX_TTL_SECONDS
from tests.conftest import issue
from tests.servers import running_server

EXAMPLES = 25
# A session that was ended can still be looked at, and a new room has no leader yet.
EXCLUDED_CHECKS = "use_after_free,ensure_resource_availability"
GENEROUS = {
    "OCTO_REQUESTS_PER_SECOND": "100000",
    "OCTO_FAILED_AUTHENTICATIONS_PER_MINUTE": "100000",
    "OCTO_PUBLIC_ELECTIONS": "true",
    "OCTO_ELECTION_REQUESTS_PER_MINUTE": "100000",
}

# Only with the token of a run's actor.
FOR_ACTORS = ("/kv", "/kv/{path}", "/runs/{run_id}/layers", "/runs/{run_id}/actors")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_responses_to_random_requests_conform_to_the_schema(committed, space, tmp_path):
    """Whether valid data is accepted is not checked: the tool takes some characters for letters or digits that are
    neither, such as ¹."""
    seed = os.environ.get("SCHEMATHESIS_SEED") or str(secrets.randbelow(10**6))
    print(f"SCHEMATHESIS_SEED={seed}")
    excluded = ("--exclude-checks", f"{EXCLUDED_CHECKS},positive_data_acceptance")
    _test_all_operations(space, tmp_path, "--seed", seed, "--max-examples", str(EXAMPLES), *excluded)


def _test_all_operations(space: Space, tmp_path: Path, *options: str) -> None:
    # The widest limits that a space can have are the schema's.
    Space.objects.filter(pk=space.pk).update(max_ttl_seconds=MAX_TTL_SECONDS, max_metadata_length=MAX_METADATA)
    token = issue(space, "schemathesis", *Scope.values)
    with running_server(os.environ["DATABASE_URL"], **GENEROUS) as server:
        schema = server.api().call("GET", "/openapi.json").json()
        for path in (
            "/locks",
            "/events",
            "/locks/{name}/history",
            "/webhooks/{public_id}/deliveries",
            "/runs",
            "/tokens",
        ):
            listing = schema["paths"][path]["get"]
            # Which cursors were given out, and that some orders are for held locks only, is not in the schema.
            listing["parameters"] = [one for one in listing["parameters"] if one["name"] not in ("cursor", "sort")]
        for body in ("AcquireBody", "AcquireAllBody"):
            # Most generated requests would wait.
            del schema["components"]["schemas"][body]["properties"]["wait_seconds"]
        for body in ("CreateBody", "ChangeBody"):
            # Which addresses may be delivered to is not in the schema either.
            schema["components"]["schemas"][body]["properties"]["url"] = {"enum": ["https://hooks.example/in"]}
        entry = schema["paths"]["/kv/{path}"]
        for operation in entry.values():
            # What each actor may write, and how long it may wait, is not in the schema.
            path = next(one for one in operation["parameters"] if one["name"] == "path")
            path["schema"] = {"type": "string", "pattern": "^shared/[a-z]{1,8}$"}
            operation["parameters"] = [
                one for one in operation["parameters"] if one["name"] not in ("wait_seconds", "layer")
            ]
        # With another encoding, the value has to be a string of that encoding.
        schema["components"]["schemas"]["PutBodyDocument"]["properties"]["encoding"] = {"enum": ["json"]}
        listing = schema["paths"]["/kv"]["get"]
        listing["parameters"] = [one for one in listing["parameters"] if one["name"] not in ("cursor", "glob", "layer")]
        (tmp_path / "openapi.json").write_text(json.dumps(schema))
        # Rotating or revoking its own token would end the run, and a stream does not end; they have tests of their own.
        excluded = [
            "/auth/token/rotate",
            "/tokens/{public_id}",
            "/watch",
            "/locks/{name}/watch",
            "/elections/{room}/watch",
            *FOR_ACTORS,
        ]
        left_out = (part for path in excluded for part in ("--exclude-path", path))
        done = check(tmp_path, server.url, token, *options, *left_out)
        started = server.api(token).call("POST", "/runs", {"session_ttl_seconds": 300}).json()
        included = (part for path in FOR_ACTORS for part in ("--include-path", path))
        done_by_actor = check(tmp_path, server.url, started["token"], *options, *included)
    assert "Tested: 48" in done.stdout, done.stdout[-2000:]
    assert "Tested: 6" in done_by_actor.stdout, done_by_actor.stdout[-2000:]


def check(directory: Path, url: str, token: str, *options: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [
            Path(sys.executable).with_name("st"), "--config-file", Path(__file__).with_name("schemathesis.toml"),
            "run", directory / "openapi.json", "--url", url, "-H", f"Authorization: Bearer {token}",
            "--checks", "all", "--exclude-checks", EXCLUDED_CHECKS, "--no-color", *options,
        ],
        capture_output=True, text=True, check=False, cwd=directory,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-8000:]}{done.stderr[-2000:]}"
    return done
