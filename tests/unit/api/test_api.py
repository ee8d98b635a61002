"""`kevin_cli.optimize` as a script and a notebook call it, in processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import kevin_cli
from kevin_cli.api import finish
from kevin_cli.commands.report import Ended
from kevin_cli.errors import StoppedError, UsageError

SCRIPT = """
import asyncio
import sys

import torch
from torch import nn

import kevin_cli


class Slow(nn.Module):
    def forward(self, x):
        for _ in range(50):
            x = torch.relu(x)
        return x * 2.0


async def cell():
    '''As in a notebook: an event loop runs already.'''
    module, x = Slow(), torch.randn(64, 256)
    found = kevin_cli.optimize(
        module, x, device="cpu", turns=1, trajectories=1, baseline="eager", model=sys.argv[1], git=False
    )
    assert type(module) is Slow
    with torch.no_grad():
        torch.testing.assert_close(found.module(x), module(x))
    assert found.verdict.is_correct
    assert found.is_faster == (found.path is not None) == (found.module is not module)
    print(found.outcome, type(found.module).__module__)


if __name__ == "__main__":
    asyncio.run(cell())
"""
KERNEL = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, min=0.0).mul(2.0)
"""


@pytest.mark.slow
def test_a_script_gets_a_copy_of_its_module_with_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "turns.json").write_text(json.dumps([f"Faster.\n\n```python\n{KERNEL}```\n"]))
    done = subprocess.run(
        [sys.executable, "script.py", f"scripted:{tmp_path / 'turns.json'}"],
        cwd=tmp_path,
        env={**os.environ, "KEVIN_CACHE": str(tmp_path / "cache"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome, home = done.stdout.splitlines()[-1].split()
    assert (outcome, home) in (("faster", "slow_kevin._patch"), ("no_gain", "__main__"))
    assert "measuring the baselines" in done.stderr


def test_importing_kevin_imports_nothing_else() -> None:
    code = "import sys, kevin_cli; print(sorted(n for n in sys.modules if n.startswith('kevin_cli.') or n == 'torch'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_not_offered_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="optimise"):
        kevin_cli.optimise  # noqa: B018


@pytest.mark.parametrize(
    ("given", "example_inputs", "words"),
    [(3, None, "int is no module"), ("nowhere.py", None, "there is no file nowhere.py")],
)
def test_what_can_not_be_optimized_is_said(given: object, example_inputs: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        kevin_cli.optimize(given, example_inputs, device="cpu")


def test_a_module_without_example_inputs_is_refused() -> None:
    import torch

    with pytest.raises(UsageError, match="example_inputs are missing"):
        kevin_cli.optimize(torch.nn.ReLU(), device="cpu")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(UsageError, match="trajectory"):
        kevin_cli.optimize("nowhere.py", device="cpu", trajectory=3)


ENDED = Ended(task="t", device="cpu", outcome="no_gain", baseline="eager", policy="none")


async def _story() -> Ended:
    await asyncio.sleep(0)
    return ENDED


def test_a_story_runs_where_an_event_loop_runs_already_and_where_none_does() -> None:
    async def cell() -> Ended:
        return finish(_story())

    assert finish(_story()) is ENDED
    assert asyncio.run(cell()) is ENDED


def test_what_a_story_raises_in_its_thread_is_raised_to_the_caller() -> None:
    async def broken() -> Ended:
        raise UsageError("wrong")

    async def cell() -> Ended:
        return finish(broken())

    with pytest.raises(UsageError, match="wrong"):
        asyncio.run(cell())


def test_an_interrupt_in_a_notebook_ends_the_story_and_its_thread() -> None:
    """The story waits for ever, and the interrupt comes while it does."""
    heard: list[str] = []

    async def endless() -> Ended:
        threading.Timer(0.2, signal.pthread_kill, [threading.main_thread().ident, signal.SIGINT]).start()
        try:
            await asyncio.Event().wait()
        finally:
            heard.append("cancelled")
        return ENDED

    def cell() -> None:
        loop = asyncio.new_event_loop()  # a notebook's handles no signals itself
        asyncio.events._set_running_loop(loop)
        try:
            finish(endless())
        finally:
            asyncio.events._set_running_loop(None)
            loop.close()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(StoppedError, match="interrupted"):
            cell()
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == ["cancelled"]
