"""octo completion and octo man: made from the commands there are. Names of locks are asked for."""

from __future__ import annotations

import sys
from typing import Any

from octo import __version__
from octo.cli.commands import COMMANDS, GLOBAL, GROUPS, Argument, Command
from octo.cli.output import Output

# Commands whose first argument is the name of a lock that is held.
_ABOUT_HELD = {"lock status", "lock release", "lock renew", "lock force-release", "lock watch", "lock history",
               "jobs owner", "jobs heartbeat", "jobs release"}  # fmt: skip
_NAMES = "octo lock list --names 2>/dev/null"


def completion(arguments: Any, _output: Output) -> None:
    sys.stdout.write({"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]())


def _top() -> dict[str, str]:
    """The first words, with their summaries."""
    return GROUPS | {command.path: command.summary for command in COMMANDS if " " not in command.path}


def _subcommands(group: str) -> list[Command]:
    return [command for command in COMMANDS if command.path.startswith(f"{group} ")]


def _options(command: Command) -> list[Argument]:
    return [argument for argument in (*command.arguments, *GLOBAL) if argument.names[0].startswith("-")]


def _choices(command: Command) -> list[str]:
    return [word for one in command.arguments if one.names[0][0] != "-" for word in one.settings.get("choices", ())]


def _takes_value(argument: Argument) -> bool:
    return argument.settings.get("action") != "store_true"


def _bash() -> str:
    words = {"": [*_top(), "--version"]} | {
        group: [one.path.split()[1] for one in _subcommands(group)] for group in GROUPS
    }
    words |= {
        one.path: [name for option in _options(one) for name in option.names if name.startswith("--")] + _choices(one)
        for one in COMMANDS
    }
    cases = "\n".join(f'    "{path}") words="{" ".join(listed)}" ;;' for path, listed in words.items())
    held = "|".join(f'"{path}"' for path in sorted(_ABOUT_HELD))
    return f"""# octo completion for bash:  source <(octo completion bash)
_octo() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path="" word words=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [ "$word" = "--" ] && return
    case "$word" in -*) continue ;; esac
    case "$path" in "" | {" | ".join(GROUPS)}) path="${{path:+$path }}$word" ;; esac
  done
  case "$path" in
{cases}
  esac
  case "$path" in
    {held}) case "$current" in -*) ;; *) words="$words $({_NAMES})" ;; esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _octo octo
"""


def _quoted(text: str) -> str:
    for special in "\\[]:":
        text = text.replace(special, f"\\{special}")
    return text.replace("'", "'\\''")


def _zsh_arguments(command: Command) -> str:
    lines = []
    for argument in _options(command):
        text = _quoted(argument.settings.get("help", ""))
        value = f":{argument.settings.get('metavar', 'value').lower()}:" if _takes_value(argument) else ""
        if choices := argument.settings.get("choices"):
            value += f"({' '.join(choices)})"
        elif argument.settings.get("metavar") == "FILE":
            value += "_files"
        lines += [f"      '{name}[{text}]{value}'" for name in argument.names]
    if command.path in _ABOUT_HELD:
        lines.append("      '1:lock:_octo_names'")
    elif choices := _choices(command):
        lines.append(f"      '1:choice:({' '.join(choices)})'")
    elif command.path == "run":
        lines.append("      '*::command:_normal'")
    return " \\\n".join(["    _arguments -s", *lines])


def _zsh_words(words: dict[str, str]) -> str:
    return " ".join(f"'{word}:{_quoted(summary)}'" for word, summary in words.items())


def _zsh() -> str:
    functions = []
    for group in GROUPS:
        subcommands = {one.path.split()[1]: one for one in _subcommands(group)}
        words = _zsh_words({name: one.summary for name, one in subcommands.items()})
        cases = "\n".join(f"    {name})\n{_zsh_arguments(one)} ;;" for name, one in subcommands.items())
        functions.append(f"""_octo_{group}() {{
  if (( CURRENT == 2 )); then
    local -a commands=({words})
    _describe command commands
    return
  fi
  local subcommand="$words[2]"
  shift words; (( CURRENT-- ))
  case "$subcommand" in
{cases}
  esac
}}""")
    cases = "\n".join(f"    {group}) _octo_{group} ;;" for group in GROUPS)
    cases += "".join(f"\n    {one.path})\n{_zsh_arguments(one)} ;;" for one in COMMANDS if " " not in one.path)
    bodies = "\n\n".join(functions)
    return f"""#compdef octo
# octo completion for zsh:  octo completion zsh > ~/.zfunc/_octo
_octo_names() {{
  local -a names=(${{(f)"$({_NAMES})"}})
  compadd -a names
}}

{bodies}

_octo() {{
  if (( CURRENT == 2 )); then
    local -a commands=({_zsh_words(_top())})
    _describe command commands
    return
  fi
  shift words; (( CURRENT-- ))
  case "$words[1]" in
{cases}
  esac
}}

if [ "$funcstack[1]" = "_octo" ]; then _octo "$@"; else compdef _octo octo; fi
"""


def _fish() -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace("'", "\\'")

    lines = ["# octo completion for fish:  octo completion fish | source", "complete -c octo -f"]
    for word, summary in _top().items():
        lines.append(f"complete -c octo -n __fish_use_subcommand -a {word} -d '{escaped(summary)}'")
    for command in COMMANDS:
        group, _, name = command.path.rpartition(" ")
        seen = f"__fish_seen_subcommand_from {group or name}"
        if group:
            others = " ".join(one.path.split()[1] for one in _subcommands(group))
            lines.append(
                f"complete -c octo -n '{seen}; and not __fish_seen_subcommand_from {others}' "
                f"-a {name} -d '{escaped(command.summary)}'"
            )
            seen += f"; and __fish_seen_subcommand_from {name}"
        for argument in _options(command):
            names = " ".join(f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in argument.names)
            value = " -r" if _takes_value(argument) else ""
            if choices := argument.settings.get("choices"):
                value = f" -x -a '{' '.join(choices)}'"
            lines.append(f"complete -c octo -n '{seen}' {names}{value} -d '{escaped(argument.settings['help'])}'")
        if choices := _choices(command):
            lines.append(f"complete -c octo -n '{seen}' -a '{' '.join(choices)}'")
        if command.path in _ABOUT_HELD:
            lines.append(f"complete -c octo -n '{seen}' -a '({_NAMES})'")
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def manual(_arguments: Any, _output: Output) -> None:
    from octo.cli.exit_codes import ExitCode

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
