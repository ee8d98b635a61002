"""Start-up: help is quick and loads nothing heavy, whatever is installed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from cli_samples import KEVIN, Kevin

HEAVY = {"torch", "transformers", "vllm", "openai", "git", "pydantic", "pydantic_settings", "numpy", "jinja2", "rich"}
TYPERS_OWN = {"pydantic"}
"""typer reads the options of a verb with it, once a verb is named."""
MAX_HELP_S = 0.3
NUM_TRIES = 5


def test_help_takes_less_than_three_tenths_of_a_second() -> None:
    """Of processor time: the command waits for nothing, and other work on the machine must not count."""

    def once() -> float:
        process = subprocess.Popen([str(KEVIN), "--help"], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return used.ru_utime + used.ru_stime

    assert min(once() for _ in range(NUM_TRIES)) < MAX_HELP_S


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [(["--help"], HEAVY), (["optimize", "--help"], HEAVY - TYPERS_OWN), (["doctor", "--help"], HEAVY - TYPERS_OWN)],
)
def test_help_imports_nothing_heavy(arguments: list[str], heavy: set[str]) -> None:
    code = f"""
import sys
from kevin_cli.app import main
sys.argv = ["kevin", *{arguments!r}]
try:
    main()
except SystemExit as error:
    assert error.code == 0
print([name for name in {sorted(heavy)!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_bare_command_prints_the_help(kevin: Kevin) -> None:
    done = kevin()
    assert done.returncode == 0
    assert "optimize" in done.stdout


def test_every_verb_is_listed(kevin: Kevin) -> None:
    assert all(f"  {verb} " in kevin("--help").stdout for verb in ("optimize", "check", "show", "doctor"))


def test_the_version_is_printed(kevin: Kevin) -> None:
    assert kevin("--version").stdout.startswith("kevin 0.")
