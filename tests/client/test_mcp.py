"""The tools for agents, through the SDK's own client: over stdio and over HTTP."""

import asyncio
import contextlib
import os
import select
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import httpx2
import jsonschema
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from octo import AsyncClient as AsyncOctoClient
from octo.mcp import tools
from tests.client.command_line import OCTO
from tests.polling import TIMEOUT_SECONDS, async_until
from tests.servers import Api

SESSION_TTL = 10


@pytest.fixture
def name() -> str:
    return f"issue-{uuid.uuid4().hex}"


@pytest.fixture
def worker(backend) -> Api:
    return backend.server.api(backend.worker_token)


@pytest.fixture
def operator(backend) -> Api:
    return backend.server.api(backend.operator_token)


@asynccontextmanager
async def over_stdio(
    backend, token: str | None = None, *, owner: str = "agent", **of_actor: str
) -> AsyncIterator[Client]:
    own = {"OCTO_TOKEN": token or backend.worker_token, "OCTO_OWNER": owner}
    environment = os.environ | backend.environment | of_actor | own
    command = StdioServerParameters(
        command=sys.executable, args=[*OCTO[1:], "mcp", "--session-ttl", f"{SESSION_TTL}s"], env=environment
    )
    async with Client(stdio_client(command)) as client:
        yield client


@asynccontextmanager
async def over_http(backend, token: str | None = None, **_ignored: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token or backend.worker_token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_SECONDS) as http,
        Client(streamable_http_client(f"{backend.url}/mcp", http_client=http)) as client,
    ):
        yield client


DOORS = [pytest.param(over_stdio, id="stdio"), pytest.param(over_http, id="http")]


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """The result of a tool, checked against the schema that it announces."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    (described,) = [one for one in (await client.list_tools()).tools if one.name == tool]
    jsonschema.validate(result.structured_content, described.output_schema)
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


def run(scenario: Callable[[], Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(3 * TIMEOUT_SECONDS):
            return await scenario()

    return asyncio.run(bounded())


def process_of(owner: str) -> psutil.Process:
    """The running `octo mcp` of that owner."""
    children = psutil.Process().children(recursive=True)
    (process,) = [one for one in children if "mcp" in one.cmdline() and one.environ().get("OCTO_OWNER") == owner]
    return process


@pytest.mark.parametrize("door", DOORS)
def test_a_job_has_one_owner_until_it_is_released(backend, door, name):
    async def scenario() -> None:
        async with door(backend) as client:
            claimed = await call(client, "claim_job", job_id=name, owner="agent-7", metadata="run=42", ttl=60)
            assert claimed["acquired"]
            assert claimed["fencing_token"] == claimed["version"]
            owner = await call(client, "get_job_owner", job_id=name)
            assert (owner["claimed"], owner["owner"], owner["metadata"]) == (True, "agent-7", "run=42")
            listed = await call(client, "list_claimed_jobs", prefix=name)
            assert [job["name"] for job in listed["jobs"]] == [name]
            async with over_http(backend) as other:
                held = await call(other, "claim_job", job_id=name)
                assert (held["acquired"], held["holder"], held["queue_position"]) == (False, "agent-7", 1)
                assert held["retry_after_ms"] > 0
                waited = await call(other, "lease_acquire", name=name, ttl_secs=60, wait_secs=1)
                assert (waited["acquired"], waited["holder"]) == (False, "agent-7")
                nxt = await call(other, "claim_next", names=[name, f"{name}-b"])
                assert (nxt["acquired"], nxt["name"]) == (True, f"{name}-b")
            lease = {"job_id": name, "lease_id": claimed["lease_id"]}
            assert (await call(client, "heartbeat_job", **lease))["renewed"]
            assert await call(client, "release_job", **lease) == {"ok": True}
            assert not (await call(client, "release_job", **lease))["ok"]
            late = await call(client, "heartbeat_job", **lease)
            assert not late["renewed"]
            assert "Stop" in late["reason"]

    run(scenario)


@pytest.mark.parametrize("door", DOORS)
def test_leases_are_renewed_and_released_by_their_id_alone(backend, door, name):
    async def scenario() -> None:
        async with door(backend) as client:
            for acquire, key, release in (
                ("lease_acquire", "name", "lease_release"),
                ("run_lease_acquire", "key", "run_lease_release"),
            ):
                lease = await call(client, acquire, **{key: f"{name}/{acquire}"}, ttl_secs=60)
                assert (await call(client, "lease_renew", lease_id=lease["lease_id"], ttl_secs=90))["renewed"]
                assert await call(client, release, lease_id=lease["lease_id"]) == {"ok": True}

    run(scenario)


@pytest.mark.parametrize("door", DOORS)
def test_no_result_contains_a_token_or_a_session(backend, door, name):
    async def scenario() -> str:
        async with door(backend) as client:
            results = [
                await call(client, "whoami"),
                await call(client, "claim_job", job_id=name),
                await call(client, "get_job_owner", job_id=name),
                await call(client, "list_claimed_jobs"),
            ]
            assert results[0]["team"] == "blue"
            return repr(results)

    results = run(scenario)
    assert backend.worker_token not in results
    assert backend.worker_token.split("_")[2] not in results
    assert "session" not in results


@pytest.mark.parametrize("door", DOORS)
def test_a_waiting_tool_reports_progress_and_gets_the_lock_when_it_is_released(backend, door, name):
    reported: list[str] = []

    async def on_progress(_share: float, _total: float | None, message: str | None) -> None:
        reported.append(message or "")

    async def scenario() -> None:
        async with over_http(backend) as holder, door(backend) as client:
            lease = await call(holder, "lease_acquire", name=name, ttl_secs=60)
            arguments = {"name": name, "ttl_secs": 60, "wait_secs": 60}
            waiting = asyncio.create_task(client.call_tool("lease_acquire", arguments, progress_callback=on_progress))
            await async_until(lambda: reported)
            await call(holder, "lease_release", lease_id=lease["lease_id"])
            assert (await waiting).structured_content["acquired"]

    run(scenario)
    assert reported[0] == f"waiting for {name}"


@pytest.mark.parametrize("door", DOORS)
def test_a_cancelled_wait_leaves_the_queue(backend, worker, door, name):
    def waiters() -> int:
        return worker.call("GET", f"/locks/{name}").json()["waiters"]

    async def scenario() -> None:
        async with over_http(backend) as holder, door(backend) as client:
            await call(holder, "lease_acquire", name=name, ttl_secs=60)
            arguments = {"name": name, "ttl_secs": 60, "wait_secs": 60}
            waiting = asyncio.create_task(client.call_tool("lease_acquire", arguments))
            await async_until(lambda: waiters() == 1)
            waiting.cancel()
            await async_until(lambda: waiters() == 0)
            assert not (await call(client, "claim_job", job_id=name))["acquired"]

    run(scenario)


@pytest.mark.parametrize("door", DOORS)
def test_an_actor_works_in_its_layer_and_its_run(backend, door, name):
    async def scenario() -> None:
        async with AsyncOctoClient(backend.url, backend.operator_token) as octo, octo.run(name=name) as run:
            actor = await run.actor("worker-1").open()
            other = await run.layer("sub-lead").open()
            async with (
                door(backend, actor.token, **actor.environment) as client,
                over_http(backend, other.token) as sub,
            ):
                identity = await call(client, "whoami")
                assert (identity["run_id"], identity["actor_id"]) == (run.run_id, "worker-1")

                assert (await call(client, "lease_acquire", name="chunk", ttl_secs=60))["name"] == "layer:chunk"
                assert (await call(sub, "lease_acquire", name="chunk", ttl_secs=60))["acquired"]
                lease = await call(client, "run_lease_acquire", key="deploy", ttl_secs=60)
                held = await call(sub, "run_lease_acquire", key="deploy", ttl_secs=60)
                assert (held["acquired"], held["holder"]) == (False, "worker-1")
                assert await call(client, "run_lease_release", lease_id=lease["lease_id"]) == {"ok": True}

                assert not (await call(client, "kv_get", path="/shared/plan"))["found"]
                for value in ("as it is", '{"a": 1}', {"a": [1, None]}, 7, None):
                    await call(client, "kv_set", path="/shared/plan", value=value)
                    assert (await call(client, "kv_get", path="/shared/plan"))["value"] == value
                swap = {"path": "/shared/count", "value": 1, "expected_version": 0}
                assert (await call(client, "kv_cas", **swap))["written"]
                again = await call(client, "kv_cas", **swap)
                assert (again["written"], again["current_version"]) == (False, 1)
                assert "/shared/count" in {one["path"] for one in (await call(client, "kv_list"))["entries"]}
                late = await call(client, "kv_wait", path="/shared/none", wait_secs=1)
                assert (late["found"], late["timed_out"]) == (False, True)
                waiting = asyncio.create_task(call(client, "kv_wait", path="/shared/news", wait_secs=60))
                await call(client, "kv_set", path="/shared/news", value="here")
                assert (await waiting)["value"] == "here"
                assert (await call(client, "kv_delete", path="/shared/news"))["deleted"]
                assert not (await call(client, "kv_delete", path="/shared/news"))["deleted"]
                assert "/peer/self/" in await refusal(client, "kv_set", path="/peer/lead/x", value="mine")

    run(scenario)


def test_a_request_that_waits_for_an_entry_has_the_time_to_wait():
    """Longer than other requests have."""
    limits = []

    async def answer(request: httpx.Request) -> httpx.Response:
        limits.append(request.extensions["timeout"]["read"])
        entry = {"path": "/shared/news", "version": 1, "value": "here", "encoding": "text"}
        return httpx.Response(200, json=entry if len(limits) > 1 else {"timed_out": True})

    async def scenario() -> None:
        async with AsyncOctoClient("http://localhost", "token", transport=httpx.MockTransport(answer)) as client:
            waiting = tools.kv_wait(
                tools.Call(client, progress=lambda *_: asyncio.sleep(0)), "/shared/news", wait_secs=50
            )
            assert (await waiting)["value"] == "here"

    asyncio.run(scenario())
    assert min(limits) > 50


def test_without_a_run_there_is_no_store(backend):
    async def scenario() -> None:
        async with over_http(backend) as client:
            assert "actor" in await refusal(client, "kv_set", path="/shared/x", value="y")

    run(scenario)


def test_the_end_of_input_frees_its_leases(backend, operator, name):
    async def scenario() -> None:
        async with over_stdio(backend) as client:
            await call(client, "claim_job", job_id=name, ttl=3600)

    run(scenario)
    # The process closed its session and did not leave it to expire.
    events = operator.call("GET", f"/locks/{name}/history").json()["events"]
    assert [event["kind"] for event in events] == ["released", "acquired"]


def test_a_signal_frees_its_leases(backend, operator, name):
    async def scenario() -> None:
        async with over_stdio(backend) as client:
            await call(client, "claim_job", job_id=name, ttl=3600)
            process_of("agent").terminate()
            await async_until(lambda: operator.call("GET", f"/locks/{name}").json()["status"] == "free")

    run(scenario)
    events = operator.call("GET", f"/locks/{name}/history").json()["events"]
    assert [event["kind"] for event in events] == ["released", "acquired"]


def test_five_agents_one_job_and_a_takeover_when_the_owner_is_killed(backend, name):
    """Five agents run the same skill on the same issue. The owner's process dies, and another agent takes over when its
    session has run out."""
    owners = [f"agent-{number}" for number in range(5)]

    async def scenario() -> None:
        async with AsyncExitStack() as agents:
            clients = [await agents.enter_async_context(over_stdio(backend, owner=owner)) for owner in owners]
            claims = await asyncio.gather(*(call(client, "claim_job", job_id=name, ttl=3600) for client in clients))
            (winner,) = [number for number, claim in enumerate(claims) if claim["acquired"]]
            assert [claim["holder"] for claim in claims if not claim["acquired"]] == [owners[winner]] * 4
            other = clients[(winner + 1) % 5]
            assert (await call(other, "get_job_owner", job_id=name))["owner"] == owners[winner]

            process_of(owners[winner]).kill()
            taken = await call(other, "lease_acquire", name=name, ttl_secs=60, wait_secs=60)
            assert taken["acquired"]
            assert taken["fencing_token"] > claims[winner]["fencing_token"]

    run(scenario)


def values() -> st.SearchStrategy[Any]:
    text = st.text(max_size=20) | st.sampled_from(["\0", "x" * 70_000, "../..", "a\ud800", "💥", ""])
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=5
    )


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    tool=st.sampled_from(sorted(set(tools.TOOLS) - {"kv_wait", "lease_acquire", "run_lease_acquire"})),
    fuzz=st.data(),
)
def test_no_arguments_break_the_server(worker, tool, fuzz):
    fields = sorted(tools.TOOLS[tool].arguments.model_fields)
    keys = st.sampled_from([*fields, "unknown"])
    arguments = fuzz.draw(st.dictionaries(keys, values(), max_size=len(fields) + 1))
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    response = worker.call("POST", "/mcp", body, Accept="application/json, text/event-stream")
    assert response.status in (200, 400), response.content[:300]
    assert b"Traceback" not in response.content
    assert worker.call("GET", "/health").status == 200


def test_http_needs_a_valid_token(backend):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for token, code in ((None, "authentication_required"), (f"{backend.worker_token[:-1]}-", "authentication_failed")):
        response = backend.server.api(token).call("POST", "/mcp", body)
        assert (response.status, response.json()["code"]) == (401, code)
        assert response.headers["X-Request-Id"].startswith("req_")


def test_http_refuses_a_foreign_host_and_a_huge_body(worker):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert worker.call("POST", "/mcp", body, Host="evil.example").status == 400
    large = {**body, "params": {"cursor": "x" * (4 * 1024 * 1024)}}
    assert worker.call("POST", "/mcp", large).status == 413


def test_bodies_that_never_end_have_a_memory_limit_for_each_team(backend, worker, operator, name):
    """Four of nearly 4 MiB fill it; the next one is refused, whichever token of the team it has, and other requests are
    not."""
    body = {"name": f"further-{name}", "expires_in_seconds": 3600}
    further = operator.call("POST", "/tokens", body).json()["token"]
    heads = [
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {4 * 1024 * 1024}\r\n\r\n"
        for token in [backend.worker_token] * 3 + [further] * 2
    ]
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", backend.server.port))))
            for _ in heads
        ]
        for client, head in zip(clients, heads, strict=True):
            client.settimeout(60)
            # The server may respond, and close the connection, before it was sent all.
            with contextlib.suppress(OSError):
                client.sendall(head.encode() + b"x" * (4 * 1024 * 1024 - 1))
        ready, _, _ = select.select(clients, [], [], 60)
        assert b" 503 " in ready[0].recv(100)
        assert worker.call("GET", "/whoami").status == 200


def test_a_tool_without_the_scope_says_which_one_is_missing(backend, operator, name):
    async def scenario() -> None:
        body = {"name": f"reader-{name}", "scopes": ["locks:read"], "expires_in_seconds": 3600}
        issued = operator.call("POST", "/tokens", body).json()
        async with over_http(backend, issued["token"]) as client:
            text = await refusal(client, "claim_job", job_id=name)
            assert "forbidden" in text
            assert "locks:write" in text

    run(scenario)


@pytest.mark.parametrize("door", DOORS)
def test_annotations_resource_and_prompt(backend, door, name):
    async def scenario() -> None:
        async with door(backend) as client:
            described = {one.name: one for one in (await client.list_tools()).tools}
            assert set(described) == set(tools.TOOLS)
            read_only = {one.name for one in described.values() if one.annotations.read_only_hint}
            assert read_only == {"get_job_owner", "kv_get", "kv_list", "kv_wait", "list_claimed_jobs", "whoami"}
            destructive = {one.name for one in described.values() if one.annotations.destructive_hint}
            assert destructive == {
                "kv_cas", "kv_delete", "kv_set", "lease_release", "release_job", "run_lease_release",
            }  # fmt: skip
            await call(client, "claim_job", job_id=name)
            (resource,) = (await client.list_resources()).resources
            assert name in (await client.read_resource(resource.uri)).contents[0].text
            (prompt,) = (await client.list_prompts()).prompts
            assert "heartbeat_job" in (await client.get_prompt(prompt.name)).messages[0].content.text

    run(scenario)
