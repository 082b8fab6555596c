"""`octo`: parses, runs one command, and ends with its exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from octo import errors
from octo.cli.arguments import UsageError, build
from octo.cli.exit_codes import ExitCode, UsageProblem
from octo.cli.output import Output


def main(argv: Sequence[str] | None = None) -> int:
    typed = list(sys.argv[1:] if argv is None else argv)
    # What follows a bare `--` is somebody else's command line.
    ours, child = (typed[: typed.index("--")], typed[typed.index("--") + 1 :]) if "--" in typed else (typed, [])
    output = Output(as_json="--json" in ours)
    try:
        return _run(ours, child, output)
    except UsageError as problem:
        if not output.as_json:
            sys.stderr.write(problem.usage)
        return output.failed(UsageProblem(str(problem)))
    except errors.OctoError as problem:
        return output.failed(problem)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever reads us has read enough. Nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.OTHER)


def _run(ours: list[str], child: list[str], output: Output) -> int:
    first = next((word for word in ours if not word.startswith("-")), None)
    arguments: Any = build(first).parse_args(ours)
    if child and arguments.command != "run":
        raise UsageProblem(f"octo {arguments.command} runs no command; nothing may follow `--`.")
    arguments.child = child
    if hasattr(arguments, "resource_option"):
        arguments.resource = _one_resource(arguments)
    module, _, function = arguments.run.partition(":")
    from importlib import import_module

    code = getattr(import_module(f"octo.cli.{module}"), function)(arguments, output)
    return int(code or ExitCode.DONE)


def _one_resource(arguments: Any) -> str | None:
    given: list[str] = [text for text in (arguments.resource, arguments.resource_option) if text]
    if len(given) > 1:
        raise UsageProblem("The resource is given twice.")
    if not given and arguments.resource_required:
        raise UsageProblem("Name the resource, as an argument or with --resource.")
    return given[0] if given else None


if __name__ == "__main__":
    sys.exit(main())
