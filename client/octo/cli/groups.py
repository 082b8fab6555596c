"""Every command, with its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from octo.cli.arguments import Parser, add_command, add_common, add_resource, add_terms, span

if TYPE_CHECKING:
    from octo.cli.arguments import Subparsers


class Group(NamedTuple):
    summary: str
    build: Callable[[Subparsers, str], None]


def _subcommands(groups: Subparsers, name: str, summary: str) -> Subparsers:
    parser = groups.add_parser(name, help=summary, description=summary)
    return parser.add_subparsers(metavar="COMMAND", required=True, dest="subcommand", parser_class=Parser)


def _lease_id(parser: Parser) -> None:
    parser.add_argument("--lease-id", metavar="ID", help="of which lease (default: the one that was remembered)")


def _some_locks(parser: Parser) -> None:
    parser.add_argument("--prefix", help="only names that start with this")
    parser.add_argument("--owner", help="only locks of this owner")


def _lock(groups: Subparsers, name: str) -> None:
    group = _subcommands(groups, name, GROUPS[name].summary)
    acquire = add_command(group, "acquire", "lock_commands:acquire", "Take a lock", add_resource, add_terms)
    acquire.add_argument("--lock-delay", type=span, metavar="TIME", help="keep it closed this long after we had it")
    acquire.add_argument("--session-id", metavar="ID", help="let it live only as long as this session")
    renew = add_command(group, "renew", "lock_commands:renew", "Keep a lock", add_resource, _lease_id)
    renew.add_argument("--ttl", type=span, metavar="TIME", help="for how long from now (default: as before)")
    add_command(group, "release", "lock_commands:release", "Give a lock back", add_resource, _lease_id)
    status = add_command(
        group, "status", "status_commands:status", "See who holds a lock, or all of them",
        lambda parser: add_resource(parser, required=False),
    )  # fmt: skip
    status.add_argument("--prefix", help="only names that start with this")
    listing = add_command(group, "list", "status_commands:listing", "List locks as a table", _some_locks)
    listing.add_argument("--status", choices=["held", "delayed", "all"], default="held")
    listing.add_argument("--sort", choices=["name", "expires_at", "acquired_at"], default="name")
    listing.add_argument("--names", action="store_true", help="print names only")
    listing.add_argument("--watch", action="store_true", help="show it again whenever it changes, until Ctrl-C")
    force = add_command(
        group, "force-release", "lock_commands:force_release", "Free a lock that somebody else holds", add_resource
    )
    force.add_argument("--reason", required=True, help="why; it goes into the history")
    force.add_argument(
        "--fencing-token", type=int, metavar="N", help="only if it is held under this (default: looked up)"
    )
    force.add_argument("--lock-delay", type=span, metavar="TIME", help="keep it closed this long")
    watch = add_command(
        group, "watch", "watch_commands:watch", "See what happens to locks as it happens",
        lambda parser: add_resource(parser, required=False),
    )  # fmt: skip
    watch.add_argument("--prefix", help="of all names that start with this")
    watch.add_argument("--after", metavar="ID", help="resume after this event")
    watch.add_argument("--limit", type=int, metavar="N", help="stop after so many events")
    history = add_command(
        group, "history", "status_commands:history", "See what happened to a lock",
        lambda parser: add_resource(parser, required=False),
    )  # fmt: skip
    history.add_argument("--limit", type=int, default=20, metavar="N", help="how many events (default: 20)")
    add_command(group, "gc", "lock_commands:gc", "Forget remembered leases that are over")


def _run(groups: Subparsers, name: str) -> None:
    run = groups.add_parser(
        name, help=GROUPS[name].summary, description=GROUPS[name].summary,
        usage="octo run RESOURCE [options] -- COMMAND [ARGUMENT ...]",
    )  # fmt: skip
    add_resource(run)
    add_terms(run)
    add_common(run)
    run.add_argument("--lock-delay", type=span, metavar="TIME", help="keep it closed this long after we had it")
    run.add_argument(
        "--on-held", choices=["skip", "fail", "wait"],
        help="what to do if somebody else has it: end well without running, fail (default), or wait",
    )  # fmt: skip
    run.add_argument("--events", action="store_true", help="print what happens to the lease as JSON lines")
    run.add_argument("--events-fd", type=int, metavar="N", help="print them to this file descriptor instead of 2")
    run.set_defaults(run="run_command:run", child=[])


def _claim_next(groups: Subparsers, name: str) -> None:
    parser = add_command(groups, name, "lock_commands:claim_next", GROUPS[name].summary, add_terms)
    parser.add_argument("names", nargs="+", metavar="RESOURCE", help="the names, best first; `-` reads them from stdin")


def _jobs(groups: Subparsers, name: str) -> None:
    group = _subcommands(groups, name, GROUPS[name].summary)

    def job(parser: Parser) -> None:
        parser.add_argument("job", metavar="JOB")

    add_command(group, "claim", "jobs_commands:claim", "Become the owner of a job", job, add_terms)
    add_command(group, "heartbeat", "jobs_commands:heartbeat", "Stay the owner", job, _lease_id)
    add_command(group, "release", "jobs_commands:release", "Give a job back", job, _lease_id)
    add_command(group, "owner", "jobs_commands:owner", "See who owns a job", job)
    add_command(group, "list", "jobs_commands:listing", "List claimed jobs").add_argument("--prefix")


def _session(groups: Subparsers, name: str) -> None:
    group = _subcommands(groups, name, GROUPS[name].summary)

    def session(parser: Parser) -> None:
        parser.add_argument("session_id", metavar="SESSION")

    start = add_command(group, "start", "session_commands:start", "Start a session")
    start.add_argument("--ttl", type=span, default=60, metavar="TIME", help="10s to 5m (default: 60)")
    start.add_argument("--owner")
    start.add_argument("--metadata", metavar="TEXT")
    add_command(group, "keepalive", "session_commands:keepalive", "Keep a session and its locks alive", session)
    add_command(group, "show", "session_commands:show", "See a session", session)
    add_command(group, "list", "session_commands:listing", "List sessions")
    add_command(group, "end", "session_commands:end", "End a session and free its locks", session)


def _token(groups: Subparsers, name: str) -> None:
    group = _subcommands(groups, name, GROUPS[name].summary)
    add_command(group, "check", "token_commands:check", "Check a token's checksum, without asking the server")
    rotate = add_command(
        group, "rotate", "token_commands:rotate", "Replace the token; one from a file is replaced there"
    )
    rotate.add_argument("--overlap", type=span, default=0, metavar="TIME", help="how long the old one works on")
    add_command(group, "whoami", "token_commands:whoami", "See what the token may do")


def _doctor(groups: Subparsers, name: str) -> None:
    add_command(groups, name, "doctor:doctor", GROUPS[name].summary)


def _completion(groups: Subparsers, name: str) -> None:
    parser = groups.add_parser(name, help=GROUPS[name].summary, description=GROUPS[name].summary)
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    parser.set_defaults(run="completion:completion", json=False)


GROUPS = {
    "lock": Group("Take, keep, look at and give back locks", _lock),
    "run": Group("Run a command while holding a lock", _run),
    "claim-next": Group("Take the first of several locks that is free", _claim_next),
    "jobs": Group("The same in the words of jobs and owners", _jobs),
    "session": Group("Hold many locks with one heartbeat", _session),
    "token": Group("Look at and replace the bearer token", _token),
    "doctor": Group("Find out what is wrong", _doctor),
    "completion": Group("Print a completion script for a shell", _completion),
}
