"""An MCP server with the tools, a resource that lists the held locks, and a prompt that explains the loop; and `octo
mcp`, which serves it on standard input and output."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter, ValidationError

from octo import __version__, errors
from octo.async_client import AsyncClient
from octo.mcp.tools import TOOLS, Call, Tool, ToolError, as_text, claimed_jobs

HELD_LOCKS = "octo://locks"
LOOP_PROMPT = "claim_loop"

# What a tool call works with, for as long as it runs.
Connect: TypeAlias = Callable[[ServerRequestContext[Any, Any]], AbstractAsyncContextManager[Call]]

INSTRUCTIONS = (
    "Octoadmin gives each job one owner. Before you start work that other agents could also start, claim it "
    "(claim_job, claim_next or lease_acquire). Renew at half of the lease's time. Release when done. If a renewal says "
    "that the lease is over, stop: another agent may own the work."
)

LOOP = """Work on a job that other agents may also see:

1. Choose the job's name so that every agent derives the same one, for example issue-1842 or deploy/main.
2. Claim it: claim_job(job_id, owner, metadata, ttl). For a list of jobs, claim_next(names) claims a free one.
   Put in the metadata what a person needs to find you: run, branch, URL. No secrets.
3. If `acquired` is false, another agent has it. Do not start. Read `holder`, choose another job, or try again after
   `retry_after_ms`.
4. While you work, call heartbeat_job(job_id, lease_id) after each `renew_after_secs`. If `renewed` is false, the job is
   no longer yours: stop at once and write nothing more.
5. Send the fencing_token with every write to a system that can check it.
6. When you are done, or give up, call release_job(job_id, lease_id). Never leave it to expire."""


def build(connect: Connect) -> Server[Any]:
    """`connect` opens what a call works with. It raises MCPError if there is nothing to call."""

    async def list_tools(
        _context: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=DESCRIPTIONS)

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if (tool := TOOLS.get(params.name)) is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"There is no tool {params.name!r}.")
        try:
            arguments = tool.arguments.model_validate(params.arguments or {})
            async with connect(context) as call:
                result = await tool.run(call, **dict(arguments))
        except (errors.OctoError, ToolError, ValidationError) as problem:
            return types.CallToolResult(content=[_text(_explain(problem))], is_error=True)
        return types.CallToolResult(content=[_text(as_text(result))], structured_content=result)

    async def list_resources(
        _context: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        held = types.Resource(
            uri=HELD_LOCKS,
            name="held locks",
            description="All locks that are held now, with their owners.",
            mime_type="application/json",
        )
        return types.ListResourcesResult(resources=[held])

    async def read_resource(
        context: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if str(params.uri) != HELD_LOCKS:
            raise MCPError(code=types.INVALID_PARAMS, message=f"There is no resource but {HELD_LOCKS}.")
        try:
            async with connect(context) as call:
                jobs = await claimed_jobs(call)
        except errors.OctoError as problem:
            raise MCPError(code=types.INTERNAL_ERROR, message=_explain(problem)) from None
        text = types.TextResourceContents(uri=HELD_LOCKS, mime_type="application/json", text=as_text(jobs))
        return types.ReadResourceResult(contents=[text])

    async def list_prompts(
        _context: ServerRequestContext[Any, Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        prompt = types.Prompt(name=LOOP_PROMPT, description="How to claim, keep and release a job.")
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(
        _context: ServerRequestContext[Any, Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name != LOOP_PROMPT:
            raise MCPError(code=types.INVALID_PARAMS, message=f"There is no prompt but {LOOP_PROMPT}.")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=_text(LOOP))])

    return Server(
        "octoadmin",
        version=__version__,
        title="Octoadmin",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _explain(problem: Exception) -> str:
    if isinstance(problem, ValidationError):
        # Without the values: they are the caller's data, and may be large.
        found = (f"{'.'.join(map(str, error['loc'])) or 'arguments'}: {error['msg']}" for error in problem.errors())
        return "The arguments are not valid. " + "; ".join(list(found)[:10])
    if isinstance(problem, errors.ApiError):
        return f"{problem.code}: {problem.details}"
    return str(problem)


def _description(tool: Tool) -> types.Tool:
    schema = tool.arguments.model_json_schema()
    annotations = types.ToolAnnotations(
        read_only_hint=tool.read_only,
        idempotent_hint=tool.idempotent,
        destructive_hint=tool.destructive,
        open_world_hint=False,
    )
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=schema if schema.get("properties") else {**schema, "properties": {}},
        output_schema=TypeAdapter(tool.result).json_schema(mode="serialization"),
        annotations=annotations,
    )


DESCRIPTIONS = [_description(tool) for tool in TOOLS.values()]


async def serve(client: AsyncClient, *, session_ttl: int, owner: str | None) -> None:
    """`octo mcp`: until standard input ends, or SIGTERM. The thread that reads standard input may still run afterwards.
    All leases belong to one session, which ends with the process: at once if it is told to stop, within its TTL if it
    is killed."""
    is_actor = (await client.request("GET", "/whoami")).get("actor") is not None
    # An actor of a run has a session already, which all its leases end with.
    joined = client.join_run() if is_actor else client.session(ttl=session_ttl, owner=owner, metadata="octo mcp")
    async with joined as session:

        @asynccontextmanager
        async def connect(context: ServerRequestContext[Any, Any]) -> AsyncIterator[Call]:
            async def progress(share: float, message: str) -> None:
                await context.session.report_progress(share, 1.0, message)

            yield Call(client, progress, is_actor=is_actor, session_id=None if is_actor else session.session_id)

        stopping = asyncio.Event()
        with suppress(NotImplementedError):  # Windows
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
        serving = asyncio.create_task(_serve(build(connect)))
        await asyncio.wait({serving, asyncio.create_task(stopping.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())
