"""Every command, with its options and examples. Parser, help, completion and manual page are made from these."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from octo.cli.output import UsageError, parse_duration


class Parser(argparse.ArgumentParser):
    """Raises instead of exiting, so that `--json` can answer in JSON."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage())


class Argument:
    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


class Command(NamedTuple):
    """`run` is `module:function` within octo.cli, imported when the command runs and called with the client, the
    arguments and the output. `defaults` are attributes of the arguments; with `_LOCAL` there is no client."""

    path: str
    run: str
    summary: str
    arguments: tuple[Argument, ...] = ()
    examples: str = ""
    defaults: dict[str, Any] = {}


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _wait(text: str) -> float:
    return math.inf if text == "forever" else _duration(text)


def _slots(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError("slots are a number from 1 to 1000")
    return int(text)


def _hook(text: str) -> str:
    if text not in ("pre-commit", "pre-push"):
        raise argparse.ArgumentTypeError("hooks are pre-commit and pre-push")
    return text


RESOURCE = (
    Argument("resource", nargs="?", metavar="RESOURCE", help="the lock's name"),
    Argument("--resource", dest="resource_option", metavar="RESOURCE", help="the same, as an option"),
)
NAMES = (Argument("names", nargs="+", metavar="RESOURCE", help="the names; `-` reads them from standard input"),)
HOLDER = (Argument("--holder", metavar="ID", help="whose saved lease it is (default: OCTO_HOLDER, else this shell's)"),)
LEASE_ID = (
    Argument("--lease-id", metavar="ID", help="which lease (default: the one that this shell acquired)"),
    *HOLDER,
)
LOCK_DELAY = (
    Argument("--lock-delay", type=_duration, metavar="TIME", help="keep the name closed this long afterwards"),
)
OPTIONS = (
    Argument("--ttl", type=_duration, metavar="TIME", help="how long it lasts: 90, 30s, 15m, 1h, 1h30m"),
    Argument("--owner", help="who holds it (default: OCTO_OWNER, else the token's name)"),
    Argument("--metadata", metavar="TEXT", help="what others should know, such as 'build=1842 host=runner-7'"),
    Argument("--wait", type=_wait, metavar="TIME", help="wait this long, or `forever`, if it is held"),
)
HOOKS = (Argument("hooks", nargs="*", type=_hook, metavar="HOOK", help="pre-commit, pre-push (default: both)"),)
PREFIX = (Argument("--prefix", help="only names that start with this"),)
ROOM = (Argument("room", metavar="ROOM", help="the room's id"),)
RUN = (Argument("run_id", metavar="RUN", help="the run's id"),)
KV = (Argument("path", metavar="PATH", help="below /ref, /peer/ACTOR, /peer/self or /shared"),)
VALUE = (
    Argument("value", help="`-` reads it from standard input"),
    Argument("--encoding", choices=["text", "json", "base64"], help="(default: text; of standard input: bytes)"),
)
OVERRIDE = (Argument("--override", action="store_true", help="as a lead, below another actor's /peer"),)
LAYER = (Argument("--layer", metavar="ID", help="a layer below yours that may be read"),)
SESSION = (Argument("session_id", metavar="SESSION", help="the session's id"),)
WEBHOOK = (Argument("webhook", metavar="WEBHOOK", help="the webhook's id"),)
GLOBAL = (
    Argument("--json", action="store_true", help="print one JSON envelope; the same as --format json"),
    Argument("--format", choices=["table", "json"], help="how results are printed (default: table)"),
    Argument("--url", help="the server (default: OCTO_URL, else the profile's, else http://127.0.0.1:8000)"),
    Argument("--token-file", metavar="FILE", help="a file that holds the token (default: OCTO_TOKEN_FILE)"),
    Argument("--profile", metavar="NAME", help="a profile of `octo login` (default: OCTO_PROFILE, else default)"),
    Argument("-q", "--quiet", action="store_true", help="print only what was asked for, and errors"),
    Argument("-v", "--verbose", action="store_true", help="log requests to standard error"),
)
GROUPS = {
    "lock": "Acquire, renew, inspect and release locks",
    "jobs": "The same in the words of jobs and owners",
    "election": "Lead, among several candidates; no token is needed",
    "runs": "Start, inspect and finish runs of several agents",
    "kv": "Share values with the other actors of your layer",
    "hook": "Check locks when changes are committed or pushed",
    "session": "Hold many locks with one heartbeat",
    "token": "Inspect and rotate the bearer token",
    "tokens": "Issue, list and revoke tokens of the space",
    "webhooks": "Have events delivered to a URL",
}
_LOCAL = {"connects": False}
_OPTIONAL = {"resource_required": False}
_REQUIRED = {"resource_required": True, "noun": "lock"}
_ANONYMOUS = {"token": ""}
_JOB = {"resource_required": True, "noun": "job"}

COMMANDS = (
    Command(
        "lock acquire", "locks:acquire", "Acquire a lock",
        (*RESOURCE, *OPTIONS, *LOCK_DELAY, *HOLDER,
         Argument("--session-id", metavar="ID", help="let it end with this session")),
        "octo lock acquire issue:8057324b --ttl 30m --owner agent-7\n"
        "octo lock acquire deploy-main --wait 5m --metadata 'build=1842'", _REQUIRED,
    ),
    Command(
        "lock renew", "locks:renew", "Renew a lock",
        (*RESOURCE, *LEASE_ID,
         Argument("--ttl", type=_duration, metavar="TIME", help="from now on (default: as before)")),
        "octo lock renew issue:8057324b --ttl 30m", _REQUIRED,
    ),
    Command(
        "lock release", "locks:release", "Release a lock that this shell acquired", (*RESOURCE, *LEASE_ID),
        "octo lock release issue:8057324b\nocto lock release issue:8057324b --holder job-17", _REQUIRED,
    ),
    Command(
        "lock status", "locks:status", "Show who holds a lock, or all of them, and what conflicts with yours",
        (*RESOURCE, *PREFIX, Argument("--mine", action="store_true", help="only what this shell holds"), *HOLDER),
        "octo lock status\nocto lock status issue:8057324b --json\nocto lock status --mine", _OPTIONAL,
    ),
    Command(
        "lock check", "git:check", "Check whether the lock policy lets you change things", (*NAMES, *HOLDER),
        "octo lock check path:src/auth.rs path:docs",
    ),
    Command(
        "lock list", "locks:listing", "List locks as a table",
        (*PREFIX, Argument("--owner", help="only locks of this owner"),
         Argument("--status", choices=["held", "delayed", "all"], default="held", help="which (default: held)"),
         Argument("--sort", choices=["name", "expires_at", "acquired_at"], default="name", help="(default: name)"),
         Argument("--names", action="store_true", help="print names only"),
         Argument("--watch", action="store_true", help="print again whenever it changes, until Ctrl-C")),
        "octo lock list --prefix issue: --sort expires_at\nocto lock list --watch",
    ),
    Command(
        "lock force-release", "locks:force_release", "Free a lock that another holder has",
        (*RESOURCE, Argument("--reason", required=True, help="why; it goes into the history"),
         Argument("--fencing-token", type=int, metavar="N", help="only if held under this (default: looked up)"),
         *LOCK_DELAY),
        "octo lock force-release deploy-main --reason 'host is gone'", _REQUIRED,
    ),
    Command(
        "lock watch", "locks:watch", "Print what happens to locks as it happens",
        (*RESOURCE, *PREFIX, Argument("--after", metavar="ID", help="resume after this event"),
         Argument("--limit", type=int, metavar="N", help="stop after so many events")),
        "octo lock watch deploy-main\nocto lock watch --prefix issue: --json", _OPTIONAL,
    ),
    Command(
        "lock history", "locks:history", "Print what happened to a lock, or to all",
        (*RESOURCE, Argument("--limit", type=int, default=20, metavar="N", help="how many events (default: 20)")),
        "octo lock history deploy-main --limit 5", _OPTIONAL,
    ),
    Command("lock gc", "locks:gc", "Delete saved leases that are over", (), "octo lock gc"),
    Command(
        "run", "run:run", "Run a command while holding locks",
        (Argument("names", nargs="*", metavar="RESOURCE", help="the locks; several are acquired together"),
         Argument("--resource", action="append", dest="more", metavar="RESOURCE", help="the same, as an option"),
         *OPTIONS, *LOCK_DELAY,
         Argument("-n", "--slots", type=_slots, metavar="N", help="allow this many holders at once"),
         Argument("--on-held", choices=["skip", "fail", "wait"],
                  help="if it is held: exit 0 without running, fail (default), or wait"),
         Argument("-E", "--conflict-exit-code", type=int, metavar="N",
                  help="exit with this if it is held, or the wait timed out"),
         Argument("--events", action="store_true", help="print what happens to the leases as JSON lines"),
         Argument("--events-fd", type=int, metavar="N", help="print them to this file descriptor instead of 2")),
        "octo run deploy-main --ttl 60 --wait 5m -- ./deploy.sh\n"
        "octo run db/migrate deploy-main -- ./migrate.sh\n"
        "octo run gpu -n 4 --wait forever -- python train.py\n"
        "octo run nightly --on-held skip -- ./report.sh", {"resource_required": False, "takes_command": True},
    ),
    Command(
        "freeze", "freezes:freeze", "Close names to new claims for a while; `octo freeze list` lists what is closed",
        (Argument("prefix", nargs="?", metavar="PREFIX", help="names that start with this (default: all of the space)"),
         Argument("--reason", help="why; clients that are refused are told it"),
         Argument("--for", dest="duration", type=_duration, metavar="TIME", help="until then: 30m, 2h")),
        "octo freeze deploy/ --reason 'database migration' --for 2h\nocto freeze list",
    ),
    Command("unfreeze", "freezes:unfreeze", "Lift a freeze before its end",
            (Argument("freeze_id", type=int, metavar="ID", help="as `octo freeze list` shows it"),), "octo unfreeze 7"),
    Command(
        "claim-next", "locks:claim_next", "Acquire one of several locks that is free",
        (*NAMES, *OPTIONS, *HOLDER), "octo claim-next issue-1842 issue-1843 --ttl 10m\nls queue | octo claim-next -",
    ),
    Command(
        "acquire-all", "locks:acquire_all", "Acquire several locks, all or none", (*NAMES, *OPTIONS, *HOLDER),
        "octo acquire-all db/migrate deploy-main --ttl 10m --wait 1m",
    ),
    Command(
        "jobs claim", "locks:acquire", "Become the owner of a job", (*RESOURCE, *OPTIONS, *HOLDER),
        "octo jobs claim issue-1842 --owner agent-7", _JOB,
    ),
    Command("jobs heartbeat", "locks:renew", "Stay the owner of a job", (*RESOURCE, *LEASE_ID),
            "octo jobs heartbeat issue-1842", {**_JOB, "ttl": None}),
    Command("jobs release", "locks:release", "Release a job", (*RESOURCE, *LEASE_ID),
            "octo jobs release issue-1842", _JOB),
    Command("jobs owner", "locks:job_owner", "Show who owns a job", RESOURCE, "octo jobs owner issue-1842", _JOB),
    Command("jobs list", "locks:list_jobs", "List claimed jobs", PREFIX, "octo jobs list --prefix issue-"),
    Command("election create", "agents:create_election", "Create a room for candidates", (), "octo election create",
            _ANONYMOUS),
    Command(
        "election hold", "agents:lead", "Lead a room: while a command runs, or until this one is stopped",
        (*ROOM, Argument("--candidate", metavar="ID", help="who you are (default: OCTO_OWNER, else the host)"),
         Argument("--ttl", type=_duration, metavar="TIME", help="5s to 5m (default: 30s)"),
         Argument("--metadata", metavar="TEXT", help="what others should know"),
         Argument("--wait", type=_wait, default=math.inf, metavar="TIME", help="wait this long (default: forever)"),
         Argument("--events", action="store_true", help="print what happens to the term as JSON lines")),
        "octo election hold ROOM --candidate west-2 -- ./scheduler\nocto election hold ROOM --wait 1m",
        {**_ANONYMOUS, "takes_command": True, "more": None, "slots": None, "on_held": "wait", "owner": None,
         "conflict_exit_code": None, "events_fd": None},
    ),
    Command("election status", "agents:election_status", "Show who leads a room", ROOM, "octo election status ROOM",
            _ANONYMOUS),
    Command(
        "election watch", "agents:watch_election", "Print the state of a room whenever it changes",
        (*ROOM, Argument("--limit", type=int, metavar="N", help="stop after so many states")),
        "octo election watch ROOM", _ANONYMOUS,
    ),
    Command(
        "runs start", "agents:start_run", "Start a run, as its lead",
        (Argument("--name", help="what people call it"), Argument("--metadata", metavar="TEXT", help="plain text"),
         Argument("--idle-limit", type=_duration, metavar="TIME",
                  help="finish when the lead is silent for so long (default: 1h)"),
         Argument("--max-depth", type=int, metavar="N", help="layers below each other (default: 2)"),
         Argument("--session-ttl", type=_duration, default=300, metavar="TIME",
                  help="of the lead's session, to be kept alive (default: 5m)"),
         Argument("--dump", action="store_true", help="keep an export when it finishes")),
        "octo runs start --name nightly --dump",
    ),
    Command("runs list", "agents:list_runs", "List runs",
            (Argument("--state", choices=["all", "unfinished", "active", "draining", "finished"], help="which"),),
            "octo runs list --state unfinished"),
    Command("runs show", "agents:show_run", "Show the layers, actors and leases of a run", RUN, "octo runs show RUN"),
    Command("runs drain", "agents:drain_run", "Let a run end: no new actors, layers and leases", RUN,
            "octo runs drain RUN"),
    Command("runs finish", "agents:finish_run", "Finish a run: its tokens are revoked, its leases free",
            (*RUN, Argument("--reason", help="why; it goes into the history")), "octo runs finish RUN --reason done"),
    Command("runs export", "agents:export_run", "Print all entries, leases and actors of a run as JSON", RUN,
            "octo runs export RUN > run.json"),
    Command("kv get", "agents:get_entry", "Print an entry of your layer", (*KV, *LAYER), "octo kv get /shared/note"),
    Command("kv set", "agents:set_entry", "Write an entry", (*KV, *VALUE, *OVERRIDE),
            "octo kv set /shared/note 'found it'\nocto kv set /peer/self/state '{\"done\": 3}' --encoding json\n"
            "octo kv set /shared/report - < report.bin"),
    Command(
        "kv cas", "agents:set_entry", "Write an entry if it is still at a version; exit 4 if not",
        (*KV, *VALUE, *OVERRIDE, Argument("--expected-version", type=int, required=True, metavar="N",
                                          help="the version it must have; 0 if it must not exist")),
        "octo kv cas /shared/counter 42 --encoding json --expected-version 7",
    ),
    Command("kv ls", "agents:list_entries", "List entries that you may read",
            (Argument("glob", nargs="?", default="/**", help="`*` matches within a segment, `**` across"), *LAYER),
            "octo kv ls '/shared/**'"),
    Command(
        "kv wait", "agents:wait_for_entry", "Wait until an entry is written, and print it",
        (*KV, *LAYER, Argument("--min-version", type=int, default=1, metavar="N", help="(default: 1)"),
         Argument("--timeout", type=_wait, default=math.inf, metavar="TIME", help="exit 124 after this long")),
        "octo kv wait /ref/plan --timeout 5m",
    ),
    Command("kv rm", "agents:delete_entry", "Delete an entry", (*KV, *OVERRIDE), "octo kv rm /shared/note"),
    Command(
        "hook install", "git:install_hooks", "Check what is committed or pushed; a hook that is there is called too",
        HOOKS, "octo hook install\nocto hook install pre-commit", _LOCAL,
    ),
    Command("hook uninstall", "git:uninstall_hooks", "Remove the hooks, and restore what was there before", HOOKS,
            "octo hook uninstall", _LOCAL),
    Command(
        "hook run", "git:run_hook", "What the hooks call: check what is being committed or pushed",
        (Argument("hook", choices=["pre-commit", "pre-push"], help="which hook"),
         Argument("remote", nargs="?", help="of a push"), Argument("remote_url", nargs="?", help="of a push"), *HOLDER),
        "octo hook run pre-commit", _LOCAL,
    ),
    Command(
        "init", "git:init", "Prepare a git repository: .git/octo/config.toml, and a section for AGENTS.md",
        (Argument("--policy", choices=["off", "warn", "require"], help="what the hooks do (default: warn)"),
         Argument("--prefix", help="put before the names of files, where repositories share a space"),
         Argument("--space", metavar="TEAM/SPACE", help="the space that the token must belong to"),
         Argument("--agents-file", default="AGENTS.md", metavar="FILE", help="(default: AGENTS.md)")),
        "octo init\nocto init --policy require --prefix acme/app", _LOCAL,
    ),
    Command(
        "session start", "account:start_session", "Start a session",
        (Argument("--ttl", type=_duration, default=60, metavar="TIME", help="10s to 5m (default: 60)"),
         Argument("--owner", help="the owner of its locks"), Argument("--metadata", metavar="TEXT", help="plain text")),
        "octo session start --ttl 1m --owner agent-9",
    ),
    Command("session keepalive", "account:keepalive_session", "Keep a session and its locks alive", SESSION,
            "octo session keepalive SESSION"),
    Command("session show", "account:show_session", "Show a session", SESSION, "octo session show SESSION"),
    Command("session list", "account:list_sessions", "List sessions", (), "octo session list"),
    Command("session end", "account:end_session", "End a session and free its locks", SESSION,
            "octo session end SESSION"),
    Command("login", "account:login", "Save a server and its token as a profile", (),
            "octo login --url https://octo.example.com\nocto login --profile staging < token-file", _LOCAL),
    Command("logout", "account:logout", "Remove a profile", (), "octo logout --profile staging", _LOCAL),
    Command("token check", "account:check_token", "Check the token's checksum, without a request", (),
            "octo token check", _LOCAL),
    Command("token whoami", "account:whoami", "Show what the token may do", (), "octo token whoami"),
    Command(
        "token rotate", "account:rotate_token", "Replace the token; one from a file is replaced there",
        (Argument("--overlap", type=_duration, default=0, metavar="TIME", help="how long the old one stays valid"),),
        "octo token rotate --overlap 1h",
    ),
    Command(
        "tokens issue", "account:issue_token", "Issue a token",
        (Argument("name", help="what will use it"),
         Argument("--preset", default="worker", help="worker (default), observer, operator-bot or orchestrator"),
         Argument("--scope", action="append", metavar="SCOPE", help="instead of a preset's scopes; repeatable"),
         Argument("--prefix", action="append", metavar="PREFIX", help="only these names; repeatable"),
         Argument("--days", type=int, default=90, metavar="N", help="until it expires (default: 90)")),
        "octo tokens issue nightly --preset worker --prefix cron/",
    ),
    Command("tokens list", "account:list_tokens", "List tokens",
            (Argument("--revoked", action="store_true", help="revoked ones too"),), "octo tokens list"),
    Command(
        "tokens revoke", "account:revoke_token", "Revoke a token",
        (Argument("public_id", metavar="PUBLIC_ID", help="as `octo tokens list` shows it"),
         Argument("--release", action="store_true", help="release its leases now instead of letting them expire")),
        "octo tokens revoke 3fGh7kLm9pQr --release",
    ),
    Command(
        "webhooks create", "account:create_webhook", "Create a webhook",
        (Argument("target", metavar="URL", help="where events are delivered"),
         Argument("--kind", action="append", choices=["acquired", "released", "expired", "force_released"],
                  help="only these events; repeatable"), *PREFIX),
        "octo webhooks create https://hooks.example.com/octo --kind expired --prefix deploy",
    ),
    Command("webhooks list", "account:list_webhooks", "List webhooks", (), "octo webhooks list"),
    Command("webhooks deliveries", "account:webhook_deliveries", "List deliveries of a webhook", WEBHOOK,
            "octo webhooks deliveries WEBHOOK"),
    Command("webhooks test", "account:test_webhook", "Send a test event", WEBHOOK, "octo webhooks test WEBHOOK"),
    Command("webhooks delete", "account:delete_webhook", "Delete a webhook", WEBHOOK, "octo webhooks delete WEBHOOK"),
    Command(
        "mcp", "agents:mcp", "Serve the tools for agents on standard input and output (MCP)",
        (Argument("--session-ttl", type=_duration, default=60, metavar="TIME",
                  help="how long leases outlive a process that was killed (default: 60s)"),
         Argument("--owner", help="who holds the leases (default: OCTO_OWNER, else the token's name)")),
        "octo mcp\nOCTO_OWNER=agent-7 octo mcp --session-ttl 30s", _LOCAL,
    ),
    Command("doctor", "account:doctor", "Check configuration, server and token", (), "octo doctor", _LOCAL),
    Command(
        "completion", "completion:completion", "Print a completion script for a shell",
        (Argument("shell", choices=["bash", "zsh", "fish"], help="which shell"),),
        "source <(octo completion bash)\nocto completion zsh > ~/.zfunc/_octo\nocto completion fish | source", _LOCAL,
    ),
    Command("man", "completion:manual", "Print the manual page", (), "octo man | man -l -", _LOCAL),
)  # fmt: skip


def build(words: Sequence[str] = ()) -> Parser:
    """The parser for these words: commands that they do not name have no options, as adding them all takes longer than
    parsing."""
    parser = Parser(
        prog="octo",
        description="One owner per job: locks that expire by themselves.",
        epilog="`octo COMMAND --help` has options and examples.",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    for argument in GLOBAL:
        parser.add_argument(*argument.names, **argument.settings)
    groups = parser.add_subparsers(metavar="COMMAND", required=True, dest="command", parser_class=Parser)
    subcommands: dict[str, Any] = {}
    for command in COMMANDS:
        group, _, name = command.path.rpartition(" ")
        if group and group not in subcommands:
            one = groups.add_parser(group, help=GROUPS[group], description=GROUPS[group])
            subcommands[group] = one.add_subparsers(
                metavar="COMMAND", required=True, dest="subcommand", parser_class=Parser
            )
        if not group or group in words:
            _add(subcommands.get(group, groups), name, command, with_options=name in words)
    return parser


def _add(group: Any, name: str, command: Command, *, with_options: bool) -> None:
    examples = "".join(f"  {line}\n" for line in command.examples.splitlines())
    usage = "octo run RESOURCE ... [options] -- COMMAND [ARGUMENT ...]" if command.path == "run" else None
    parser = group.add_parser(
        name, help=command.summary, description=command.summary, epilog=f"examples:\n{examples}", usage=usage
    )
    if not with_options:
        return
    for argument in command.arguments:
        parser.add_argument(*argument.names, **argument.settings)
    for argument in GLOBAL:
        # Given before the command they must not be reset by its defaults.
        parser.add_argument(*argument.names, **{**argument.settings, "default": argparse.SUPPRESS})
    parser.set_defaults(run=command.run, **command.defaults)
