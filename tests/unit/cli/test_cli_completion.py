"""Completion in real shells, as a user sets it up; a shell that is not installed is passed over."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from cli_samples import KEVIN

BASH = """
eval "$(kevin completion bash)"
COMP_WORDS=(%s) COMP_CWORD=%d
_kevin_completion kevin
echo "${COMPREPLY[@]}"
"""
ZSH = """
autoload -U compinit; compinit -u -D 2>/dev/null
eval "$(kevin completion zsh)"
_arguments() { print -r -- "$*" }
words=(%s) CURRENT=%d
_kevin_completion
"""
FISH = """
kevin completion fish | source
complete -C "%s"
"""
CASES = [
    ("kevin op", ["optimize"]),
    ("kevin runs re", ["resume", "replay"]),
    ("kevin optimize --sea", ["--search"]),
    ("kevin optimize --search b", ["beam"]),
]


def ask(shell: str, line: str) -> str:
    words = line.split()
    script = {"bash": BASH, "zsh": ZSH}.get(shell, FISH)
    script %= line if shell == "fish" else (line, len(words) - (shell == "bash"))
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    path = f"{KEVIN.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [shell, *options, "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path}, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(("line", "answers"), CASES)
def test_a_shell_completes(shell: str, line: str, answers: list[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    found = ask(shell, line)
    assert [answer for answer in answers if answer not in found] == []
    assert "doctor" not in found
