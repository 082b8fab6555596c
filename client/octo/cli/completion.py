"""octo completion and octo man: made from the commands there are.

Each shell's script asks `octo __complete WORD...` what the last word may become: a line for each candidate, with the
word, a tab and a description.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from octo import __version__, errors
from octo.cli.commands import COMMANDS, GLOBAL, GROUPS, Argument, Command
from octo.cli.output import Output, sanitize

# Commands whose first argument is the name of a lock that is held.
_ABOUT_HELD = {"lock status", "lock release", "lock renew", "lock force-release", "lock watch", "lock history",
               "jobs owner", "jobs heartbeat", "jobs release"}  # fmt: skip

_BASH = r"""# octo completion for bash:  source <(octo completion bash)
_octo() {
  local IFS=$'\n'
  COMPREPLY=($(octo __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o default -F _octo octo
"""

_ZSH = r"""#compdef octo
# octo completion for zsh:  octo completion zsh > ~/.zfunc/_octo
_octo() {
  local line end=${words[(i)--]}
  local -a found
  if (( end < CURRENT )); then
    shift $end words; (( CURRENT -= end ))
    _normal
    return
  fi
  for line in ${(f)"$(octo __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)"}; do
    found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#found )); then _describe octo found; else _files; fi
}

if [ "$funcstack[1]" = "_octo" ]; then _octo "$@"; else compdef _octo octo; fi
"""

_FISH = r"""# octo completion for fish:  octo completion fish | source
function __octo_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  if set -l end (contains -i -- -- $words)
    complete -C (string join ' ' -- $words[(math $end + 1)..] "$current")
    return
  end
  set -l found (octo __complete $words[2..] "$current" 2>/dev/null)
  and string join \n -- $found
  or __fish_complete_path "$current"
end
complete -c octo -f -a '(__octo_complete)'
"""


def completion(arguments: Any, _output: Output) -> None:
    sys.stdout.write({"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[arguments.shell])


def complete(words: Sequence[str]) -> int:
    """Exit code 1 if there is nothing; then the shell offers files."""
    found = [(word, summary) for word, summary in _candidates(words) if word.startswith(words[-1])]
    sys.stdout.writelines(f"{word}\t{summary}\n" for word, summary in found)
    return 0 if found else 1


def _candidates(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    *before, current = words
    commands = {command.path: command for command in COMMANDS}
    path, given = "", 0
    option: Argument | None = None
    for word in before:
        if word == "--":
            return
        if option is not None:
            # This is its value.
            option = None
        elif word.startswith("-"):
            option = next(
                (one for one in _options(commands.get(path)) if word in one.names and _takes_value(one)), None
            )
        elif path in commands:
            given += 1
        else:
            path = f"{path} {word}".lstrip()
    if option is not None:
        yield from ((choice, option.settings["help"]) for choice in option.settings.get("choices", ()))
    elif current.startswith("-"):
        yield from ((name, one.settings["help"]) for one in _options(commands.get(path)) for name in one.names)
    elif path in commands:
        for argument in commands[path].arguments:
            if argument.names[0][0] != "-":
                yield from ((choice, argument.settings["help"]) for choice in argument.settings.get("choices", ()))
        if path in _ABOUT_HELD and not given:
            yield from _held_locks(current)
    else:
        yield from () if path else GROUPS.items()
        for command in COMMANDS:
            group, _, name = command.path.rpartition(" ")
            if group == path:
                yield name, command.summary


def _options(command: Command | None) -> list[Argument]:
    return [one for one in (*(command.arguments if command else ()), *GLOBAL) if one.names[0].startswith("-")]


def _takes_value(argument: Argument) -> bool:
    return argument.settings.get("action") != "store_true"


def _held_locks(prefix: str) -> Iterator[tuple[str, str]]:
    from octo.client import Client

    with suppress(errors.OctoError), Client(retry_for=0, program="octo-cli") as client:
        yield from ((lock.name, sanitize(lock.owner or "")) for lock in client.locks(prefix=prefix))


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def manual(_arguments: Any, _output: Output) -> None:
    from octo.cli.output import ExitCode

    lines = [
        f'.TH OCTO 1 "" "octo {__version__}" "User Commands"',
        ".SH NAME",
        "octo \\- locks that expire by themselves",
        ".SH SYNOPSIS",
        ".B octo\n[OPTIONS] COMMAND ...",
        ".SH GLOBAL OPTIONS",
    ]
    for argument in GLOBAL:
        lines += _roff_option(argument)
    lines.append(".SH COMMANDS")
    for command in COMMANDS:
        names = [
            one.settings.get("metavar", one.names[0].upper()) for one in command.arguments if one.names[0][0] != "-"
        ]
        lines += [f".SS octo {_roff(' '.join([command.path, *names]))}", f"{_roff(command.summary)}."]
        for argument in command.arguments:
            if argument.names[0].startswith("-"):
                lines += _roff_option(argument)
        lines += [".PP", "Examples:", ".nf", *(f"  {_roff(line)}" for line in command.examples.splitlines()), ".fi"]
    lines.append(".SH EXIT STATUS")
    for code in ExitCode:
        lines += [".TP", f".B {code.value}", _roff(code.name.replace("_", " ").lower())]
    sys.stdout.write("\n".join(lines) + "\n")


def _roff_option(argument: Argument) -> list[str]:
    value = ""
    if _takes_value(argument):
        value = f" {argument.settings.get('metavar') or argument.names[-1].lstrip('-').upper()}"
    return [".TP", f".B {_roff(', '.join(argument.names) + value)}", _roff(argument.settings["help"])]
