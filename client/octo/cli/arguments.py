"""What can be typed. The subcommands of a group are only built when that group is asked for."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from octo import durations

if TYPE_CHECKING:
    # At run time it is a private class of argparse.
    Subparsers = argparse._SubParsersAction["Parser"]


class UsageError(Exception):
    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage


class Parser(argparse.ArgumentParser):
    """Raises instead of leaving, so that `--json` can answer in JSON."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage())


def span(text: str) -> int:
    try:
        return durations.parse(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def wait(text: str) -> float:
    return math.inf if text == "forever" else span(text)


def add_common(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON envelope")
    parser.add_argument("--url", help="the server (default: OCTO_URL, else http://127.0.0.1:8000)")
    parser.add_argument("--token-file", metavar="FILE", help="a file that holds the token (default: OCTO_TOKEN_FILE)")


def add_resource(parser: Parser, *, required: bool = True) -> None:
    parser.add_argument("resource", nargs="?", metavar="RESOURCE", help="the lock's name")
    parser.add_argument("--resource", dest="resource_option", metavar="RESOURCE", help="the same, as an option")
    parser.set_defaults(resource_required=required)


def add_terms(parser: Parser) -> None:
    parser.add_argument("--ttl", type=span, metavar="TIME", help="for how long: 90, 30s, 15m, 1h, 1h30m")
    parser.add_argument("--owner", help="who holds it (default: OCTO_OWNER, else the token's name)")
    parser.add_argument(
        "--metadata", metavar="TEXT", help="what others should know, such as 'build=1842 host=runner-7'"
    )
    parser.add_argument(
        "--wait", type=wait, metavar="TIME", help="wait this long (or `forever`) if somebody else has it"
    )


def add_command(
    group: Subparsers, name: str, run: str, summary: str, *options: Callable[[Parser], None], **settings: Any
) -> Parser:
    """`run` is `module:function` within octo.cli, imported when the command runs."""
    parser = group.add_parser(name, help=summary, description=summary, **settings)
    for add in (*options, add_common):
        add(parser)
    parser.set_defaults(run=run)
    return parser


def build(only: str | None = None) -> Parser:
    """With `only`, the other groups are named but empty."""
    from octo.cli.groups import GROUPS
    from octo.user_agent import VERSION

    parser = Parser(prog="octo", description="One owner per job: locks that run out by themselves.")
    parser.add_argument("--version", action="version", version=f"octo {VERSION}")
    groups = parser.add_subparsers(metavar="COMMAND", required=True, dest="command", parser_class=Parser)
    for name, add in GROUPS.items():
        if only is None or only == name:
            add.build(groups, name)
        else:
            groups.add_parser(name, help=add.summary)
    return parser
