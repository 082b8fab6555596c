"""`octo`: parses, runs one command, and ends with its exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    # What follows a bare `--` is another program's command line.
    ours, child = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    if ours == ["--version"]:
        from octo import __version__

        print(f"octo {__version__}")
        return 0
    # Where they are installed, httpx imports h2, and rich and click for its own command line. No command uses them, and
    # they take as long as all the rest.
    for module in ("httpx._main", "h2"):
        sys.modules.setdefault(module, None)  # type: ignore[arg-type]
    if words[:1] == ["__complete"]:
        from octo.cli.completion import complete

        return complete(words[1:] or [""])
    from octo import errors
    from octo.cli.output import ExitCode, Output, UsageError

    # Known before parsing, so that a wrong command line is answered in JSON too.
    output = Output(as_json=re.search(r" --(json|format[ =]json) ", f" {' '.join(ours)} ") is not None)
    try:
        return _run(ours, child, output)
    except errors.OctoError as problem:
        if isinstance(problem, UsageError) and not output.as_json:
            sys.stderr.write(problem.usage)
        return output.error(problem)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has gone. Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OTHER)


def _run(ours: list[str], child: list[str], output: Any) -> int:
    from importlib import import_module

    from octo.cli.commands import build
    from octo.cli.output import UsageError

    arguments: Any = build(ours).parse_args(ours)
    if child and not getattr(arguments, "takes_command", False):
        raise UsageError(f"octo {arguments.command} runs no command; nothing may follow `--`.")
    arguments.child = child
    output.quiet = arguments.quiet
    _set_up_logging(verbose=arguments.verbose)
    if hasattr(arguments, "resource_option"):
        arguments.resource = _one_resource(arguments)
    module, _, name = arguments.run.partition(":")
    command = getattr(import_module(f"octo.cli.{module}"), name)
    if not getattr(arguments, "connects", True):
        return int(command(arguments, output) or 0)
    from octo.cli.context import connect

    with connect(arguments) as client:
        return int(command(client, arguments, output) or 0)


def _set_up_logging(*, verbose: bool) -> None:
    import logging

    if verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s: %(message)s")
    else:
        # Commands report what matters themselves.
        logging.getLogger("octo").addHandler(logging.NullHandler())


def _one_resource(arguments: Any) -> str | None:
    from octo.cli.output import UsageError

    given: list[str] = [text for text in (arguments.resource, arguments.resource_option) if text]
    if len(given) > 1:
        raise UsageError("The resource is given twice.")
    if not given and arguments.resource_required:
        raise UsageError("Name the resource, as an argument or with --resource.")
    return given[0] if given else None
