"""octo completion: a script for the shell, made from the commands there are. Names of locks are asked for."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NamedTuple

from octo.cli.arguments import build
from octo.cli.output import Output

# Commands whose first argument is the name of a lock that somebody holds.
_ABOUT_HELD = {"lock status", "lock release", "lock renew", "lock force-release", "lock watch", "lock history",
               "jobs owner", "jobs heartbeat", "jobs release"}  # fmt: skip
_NAMES = "octo lock list --names 2>/dev/null"


class Command(NamedTuple):
    path: str
    summary: str
    words: list[str]
    """Its subcommands, or its options."""


def commands(parser: argparse.ArgumentParser | None = None, path: str = "", summary: str = "") -> list[Command]:
    parser = parser or build()
    found: list[Command] = []
    words: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {choice.dest: choice.help or "" for choice in action._choices_actions}
            words += action.choices
            for name, child in action.choices.items():
                found += commands(child, f"{path} {name}".strip(), summaries.get(name, ""))
        else:
            words += [option for option in action.option_strings if option.startswith("--")]
            words += [str(choice) for choice in action.choices or ()]
    return [Command(path, summary, words), *found]


def completion(arguments: Any, _output: Output) -> None:
    sys.stdout.write({"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]())


def _bash() -> str:
    cases = "\n".join(f'    "{one.path}") words="{" ".join(one.words)}" ;;' for one in commands())
    held = "|".join(f'"{path}"' for path in sorted(_ABOUT_HELD))
    return f"""# octo completion for bash:  source <(octo completion bash)
_octo_names() {{ {_NAMES}; }}
_octo() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path="" word words=""
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [ "$word" = "--" ] && return
    case "$word" in -*) continue ;; esac
    case "$path" in "" | lock | jobs | session | token) path="${{path:+$path }}$word" ;; esac
  done
  case "$path" in
{cases}
  esac
  case "$path" in
    {held}) case "$current" in -*) ;; *) words="$words $(_octo_names)" ;; esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _octo octo
"""


def _zsh() -> str:
    return f"""# octo completion for zsh:  source <(octo completion zsh)
autoload -U +X bashcompinit && bashcompinit
{_bash()}"""


def _fish() -> str:
    lines = ["# octo completion for fish:  octo completion fish | source", "complete -c octo -f"]
    for one in commands():
        group, _, name = one.path.partition(" ")
        seen = f"__fish_seen_subcommand_from {group}" if group else "__fish_use_subcommand"
        if name:
            seen += f"; and __fish_seen_subcommand_from {name}"
        for word in one.words:
            option = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c octo -n '{seen}' {option}")
        if one.path in _ABOUT_HELD:
            lines.append(f"complete -c octo -n '{seen}' -a '({_NAMES})'")
    return "\n".join(lines) + "\n"
