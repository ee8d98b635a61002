"""SIGKILL at random moments: a run always goes on, no turn is lost or paid twice, git stays consistent.

Ten kills by default; `KEVIN_KILLS=100` (`make soak`) for a hundred.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import killable
import pytest
import test_git

from kevin_cli.refine.git_branch import read_branch
from kevin_cli.refine.journal import RecordedRun, list_runs, load_run
from kevin_cli.refine.ledger import total_usage

NUM_KILLS = int(os.environ.get("KEVIN_KILLS", "10"))
LONGEST_LIFE_S = 0.5
KILLS_A_RUN = 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    test_git.git(tmp_path, "init", "--quiet", str(project))
    (project / "layer_norm.py").write_text("# the module\n")
    return tmp_path


def start(folder: Path, seed: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(killable.__file__)), str(folder), seed]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def recorded(folder: Path) -> RecordedRun | None:
    names = list_runs(folder / "runs")
    return load_run(folder / "runs" / names[0]) if names else None


def paid(run: RecordedRun | None) -> set[str]:
    """Places whose completion is on disk, judged or not."""
    if run is None:
        return set()
    turns = {f"{t.index}.{turn.index}" for t in run.trajectories for turn in t.own_turns}
    names = [path.stem for path in (run.folder / "held").glob("*.json")]
    return turns | {f"{int(name[1:3])}.{int(name[5:7])}" for name in names}


def bill(folder: Path) -> list[str]:
    path = folder / "bill.txt"
    return path.read_text().split() if path.is_file() else []


def sources(run: RecordedRun | None) -> dict[str, str]:
    if run is None:
        return {}
    return {
        f"{t.index}.{turn.index}": turn.candidate.source
        for t in run.trajectories
        for turn in t.own_turns
        if turn.candidate
    }


def kill_soon(folder: Path, seed: str) -> bool:
    """Start, let it live for a moment, kill it; whether it was killed before it ended."""
    process = start(folder, seed)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(random.uniform(0, LONGEST_LIFE_S))
    process.kill()
    return process.wait(30) != 0


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", range((NUM_KILLS + KILLS_A_RUN - 1) // KILLS_A_RUN))
def test_a_run_that_is_killed_again_and_again_comes_to_its_end(folder: Path, number: int) -> None:
    seed = f"soak {number}"
    for _ in range(min(KILLS_A_RUN, NUM_KILLS)):
        before, billed, programs = paid(recorded(folder)), len(bill(folder)), sources(recorded(folder))
        kill_soon(folder, seed)
        run = recorded(folder)
        assert not before & set(bill(folder)[billed:]), "a completion on disk was paid again"
        assert programs.items() <= sources(run).items(), "a turn was lost"
    assert start(folder, seed).wait(120) == 0
    run = recorded(folder)
    assert run is not None
    assert run.ending is not None
    assert run.result is not None
    assert run.result.num_turns == 36
    assert total_usage(run.result.turns).num_completion_tokens == 5 * 36
    check_git(folder, run)


def check_git(folder: Path, run: RecordedRun) -> None:
    project = folder / "project"
    test_git.git(project, "fsck", "--strict")
    assert test_git.history(project, run) == test_git.expected(run)
    branch = read_branch(run.folder)
    assert branch is not None
    assert "Kevin-Result: " in test_git.git(project, "log", "-1", "--format=%B", branch.name)


def test_killed_or_not_the_end_is_the_same(folder: Path, tmp_path: Path) -> None:
    """A selection depends on what is recorded, never on when it was killed."""
    kill_soon(folder, "same")
    assert start(folder, "same").wait(120) == 0
    other = tmp_path / "other"
    (other / "project").mkdir(parents=True)
    test_git.git(other, "init", "--quiet", str(other / "project"))
    assert start(other, "same").wait(120) == 0
    killed, whole = recorded(folder), recorded(other)
    assert killed is not None
    assert whole is not None
    assert killed.selections == whole.selections
    assert sources(killed) == sources(whole)
    assert killed.ending is not None
    assert whole.ending is not None
    assert killed.ending.winner == whole.ending.winner
