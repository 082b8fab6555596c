"""Completion, in the shells themselves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# For each shell, how it is asked for the completions of a line. zsh has its own functions only while a person types.
ASK = {
    "bash": 'source "$SCRIPT"; COMP_WORDS=($LINE); [[ $LINE == *" " ]] && COMP_WORDS+=("");'
    'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _octo; printf "%s\\n" "${COMPREPLY[@]}"',
    "zsh": "compdef() { }; _describe() { print -l -- ${(P)2} };"
    "_files() { print files }; _normal() { print command $words };"
    'source "$SCRIPT"; words=("${(@s: :)LINE}"); CURRENT=$#words; _octo',
    "fish": 'source "$SCRIPT"; complete -C "$LINE"',
}


@pytest.fixture(params=list(ASK))
def completed(request, octo, tmp_path):
    if (shell := shutil.which(request.param)) is None:
        pytest.skip(f"{request.param} is not installed")
    script = tmp_path / "script"
    script.write_text(octo.run("completion", request.param).stdout)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def complete(line: str) -> list[str]:
        done = subprocess.run(
            [shell, "-c", ASK[request.param]], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**octo._environment({}), "PATH": path, "SCRIPT": str(script), "LINE": line},
        )  # fmt: skip
        # A description follows a colon in zsh, a tab in fish.
        return sorted(word.split("\t")[0].split(":")[0] for word in done.stdout.splitlines() if word)

    complete.shell = request.param
    return complete


def test_commands_options_and_choices(completed):
    assert completed("octo loc") == ["lock"]
    assert completed("octo lock re") == ["release", "renew"]
    assert completed("octo lock acquire deploy --w") == ["--wait"]
    assert completed("octo --json lock ren") == ["renew"]
    assert completed("octo --profile lock lock ren") == ["renew"]
    assert completed("octo --pro") == ["--profile"]
    assert completed("octo lock list --sort ") == ["acquired_at", "expires_at", "name"]
    assert completed("octo completion ") == ["bash", "fish", "zsh"]


def test_names_of_locks_that_are_held(completed, client, name):
    client.acquire(name, ttl=60)
    assert completed(f"octo lock status {name[:-2]}") == [name]
    assert completed(f"octo lock acquire {name[:-2]}") in ([], ["files"])


def test_what_is_not_ours_is_left_to_the_shell(completed):
    if completed.shell == "bash":
        pytest.skip("bash offers files by itself")
    assert completed("octo --token-file scr") in (["script"], ["files"])
    assert completed("octo run x -- fals") in (["false"], ["command fals"])
