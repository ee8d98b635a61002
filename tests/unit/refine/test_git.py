"""The branch of a run: its commits equal the record, and nothing of the user's is touched."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import refine_samples as samples

from kevin_cli.refine.git_branch import Follower, read_branch, start_branch
from kevin_cli.refine.journal import Journal, RecordedRun, continue_run, load_run, open_run
from kevin_cli.refine.run import optimize
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Event, Style, Task, Trajectory

BEAM = RunSettings(style=Style.GENERAL, search="beam", num_turns=3, num_trajectories=4, round_turns=1, keep=2, copies=2)
SERIAL = RunSettings(style=Style.GENERAL, num_turns=3, num_trajectories=1)


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With one commit, a staged file, a changed file and hooks that refuse everything."""
    home = tmp_path / "project"
    (home / "models").mkdir(parents=True)
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(home))
    git(home, "config", "user.email", "me@example.org")
    git(home, "config", "user.name", "me")
    (home / "models" / "layer_norm.py").write_text("# the module\n")
    git(home, "add", ".")
    git(home, "commit", "--quiet", "-m", "first")
    (home / "staged.txt").write_text("staged\n")
    git(home, "add", "staged.txt")
    (home / "models" / "layer_norm.py").write_text("# changed\n")
    for name in ("reference-transaction", "pre-commit", "post-commit", "commit-msg"):
        hook = home / ".git" / "hooks" / name
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
    return home


def task_in(home: Path) -> Task:
    task = samples.task()
    return replace(task, target=replace(task.target, path=str(home / "models" / "layer_norm.py")))


class Judging(samples.MarkedJudge):
    """Turn t of trajectory i is `1 + i / 8 + t` times faster; one in five is wrong."""


def policy_and_judge() -> tuple[object, samples.MarkedJudge]:
    verdicts = {
        f"{i}.{t}": samples.correct(1 + i / 8 + t) if (i + t) % 5 else samples.mismatch()
        for i in range(16)
        for t in range(3)
    }

    class Naming:
        name = "naming"

        async def propose(self, trajectory: Trajectory, limits: object) -> object:
            return samples.said(samples.answer(f"{trajectory.index}.{len(trajectory.turns)}"))

        async def close(self) -> None:
            """Nothing is open."""

    return Naming(), samples.MarkedJudge(verdicts)


def run_in(home: Path, runs: Path, settings: RunSettings, warnings: list[str] | None = None) -> RecordedRun:
    journal = open_run(task_in(home), policy="naming", settings=settings, root=runs)
    follow(journal, settings, home, warnings)
    return load_run(journal.folder)


def follow(journal: Journal, settings: RunSettings, home: Path, warnings: list[str] | None = None) -> None:
    branch = read_branch(journal.folder) or start_branch(journal.folder, task_in(home))
    policy, judge = policy_and_judge()
    start = load_run(journal.folder)
    if branch is None:
        asyncio.run(optimize(task_in(home), policy, judge, settings, journal, start=start))  # type: ignore[arg-type]
        return
    with Follower(journal.folder, branch, (warnings if warnings is not None else []).append) as follower:

        def watch(event: Event) -> None:
            follower.poke()

        asyncio.run(optimize(task_in(home), policy, judge, settings, journal, watch, start=start))  # type: ignore[arg-type]


def history(home: Path, run: RecordedRun) -> dict[tuple[int, int], tuple[tuple[int, int] | None, str]]:
    """What git says: each turn with the turn before it, and the kernel at that commit."""
    names, found = {}, {}
    branch = read_branch(run.folder)
    assert branch is not None
    log = git(home, "log", "--topo-order", "--reverse", "--format=%H|%P|%(trailers:key=Kevin-Trajectory,valueonly)"
              "%(trailers:key=Kevin-Turn,valueonly)", branch.name).replace("\n|", "|")  # fmt: skip
    for entry in [line for line in log.replace("\n\n", "\n").split("\n") if line]:
        if "|" in entry:
            name, parents, first = entry.split("|")
            current = (name, parents.split(), first)
        elif entry:
            trajectory, turn = int(current[2]) - 1, int(entry) - 1
            kernel = git(home, "show", f"{current[0]}:{branch.path}")
            found[trajectory, turn] = (names.get(current[1][0]), kernel)
            names[current[0]] = (trajectory, turn)
    return found


def expected(run: RecordedRun) -> dict[tuple[int, int], tuple[tuple[int, int] | None, str]]:
    """What the record says."""
    found = {}
    for trajectory in run.trajectories:
        places: list[tuple[int, int]] = [
            next((t.index, turn.index) for t in run.trajectories if turn in t.own_turns) for turn in trajectory.turns
        ]
        for number in range(trajectory.num_shared, len(trajectory.turns)):
            turn = trajectory.turns[number]
            assert turn.candidate is not None
            before = places[number - 1] if number else None
            found[trajectory.index, number] = (before, turn.candidate.source.strip())
    return found


@pytest.mark.parametrize("settings", [BEAM, SERIAL], ids=["beam", "serial"])
def test_the_history_in_git_equals_the_record(repository: Path, tmp_path: Path, settings: RunSettings) -> None:
    warnings: list[str] = []
    run = run_in(repository, tmp_path / "runs", settings, warnings)
    assert warnings == []
    assert history(repository, run) == expected(run)
    git(repository, "fsck", "--strict")


def test_nothing_of_the_users_is_touched(repository: Path, tmp_path: Path) -> None:
    before = [git(repository, "status", "--porcelain=v2"), git(repository, "rev-parse", "HEAD"),
              (repository / ".git" / "index").read_bytes()]  # fmt: skip
    run_in(repository, tmp_path / "runs", SERIAL)
    after = [git(repository, "status", "--porcelain=v2"), git(repository, "rev-parse", "HEAD"),
             (repository / ".git" / "index").read_bytes()]  # fmt: skip
    assert after == before


def test_the_branch_holds_the_winner_and_says_how_it_won(repository: Path, tmp_path: Path) -> None:
    run = run_in(repository, tmp_path / "runs", BEAM)
    assert run.result is not None
    assert run.result.winner is not None
    assert run.result.winner.candidate is not None
    name = f"kevin/{run.id}"
    kernel = git(repository, "show", f"{name}:models/layer_norm_kevin/kernel.py")
    assert kernel == run.result.winner.candidate.source.strip()
    message = git(repository, "log", "-1", "--format=%B", name)
    assert "Kevin-Result: faster" in message
    assert "Kevin-Speedup: " in message
    assert git(repository, "diff", "--name-only", f"main...{name}") == "models/layer_norm_kevin/kernel.py"


def test_a_run_that_goes_on_makes_the_same_commits_again(repository: Path, tmp_path: Path) -> None:
    run = run_in(repository, tmp_path / "runs", BEAM)
    names = git(repository, "log", "--format=%H %s", "--grep=Kevin-Turn", f"kevin/{run.id}")
    lines = (run.folder / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (run.folder / "turns.jsonl").write_bytes(b"".join(lines[:6]))
    kept = (run.folder / "selections.jsonl").read_bytes().splitlines(keepends=True)
    (run.folder / "selections.jsonl").write_bytes(kept[0])
    killed = load_run(run.folder)
    follow(continue_run(killed), BEAM, repository)
    again = load_run(run.folder)
    assert history(repository, again) == expected(again)
    first = set(names.splitlines()) & set(
        git(repository, "log", "--format=%H %s", "--grep=Kevin-Turn", f"kevin/{run.id}").splitlines()
    )
    assert len(first) >= 6
    git(repository, "fsck", "--strict")


def test_a_repository_without_commits_gets_a_branch(tmp_path: Path) -> None:
    home = tmp_path / "new"
    (home / "models").mkdir(parents=True)
    git(tmp_path, "init", "--quiet", str(home))
    run = run_in(home, tmp_path / "runs", SERIAL)
    assert history(home, run) == expected(run)
    assert subprocess.run(["git", "-C", str(home), "rev-parse", "-q", "--verify", "HEAD"], check=False).returncode


def test_worktrees_and_detached_heads(repository: Path, tmp_path: Path) -> None:
    (repository / ".git" / "hooks" / "reference-transaction").unlink()
    (repository / ".git" / "hooks" / "post-commit").unlink()
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "--quiet", "--detach", str(tree))
    run = run_in(tree, tmp_path / "runs", SERIAL)
    assert history(repository, run) == expected(run)
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("kind", ["none", "bare"])
def test_without_a_working_tree_there_is_no_branch_and_no_complaint(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "place"
    (home / "models").mkdir(parents=True)
    if kind == "bare":
        git(tmp_path, "init", "--quiet", "--bare", str(home))
    run = run_in(home, tmp_path / "runs", SERIAL)
    assert run.ending is not None
    assert not (run.folder / "git.json").exists()


def test_a_branch_that_is_in_the_way_ends_the_commits_not_the_run(repository: Path, tmp_path: Path) -> None:
    (repository / ".git" / "refs" / "heads" / "kevin").write_text(git(repository, "rev-parse", "HEAD") + "\n")
    warnings: list[str] = []
    run = run_in(repository, tmp_path / "runs", SERIAL, warnings)
    assert run.ending is not None
    (warning,) = warnings
    assert warning.startswith(f"git: no more commits on kevin/{run.id}: ")


def test_what_may_be_noise_is_told_as_no_difference(repository: Path, tmp_path: Path) -> None:
    """In subjects, in trailers and of the best so far."""
    task = task_in(repository)
    settings = RunSettings(style=Style.GENERAL, num_turns=1, num_trajectories=2, baseline="eager")
    journal = open_run(task, policy="scripted", settings=settings, root=tmp_path / "runs")
    journal.record(0, samples.turn(0, samples.correct(1.03)))
    journal.record(1, samples.turn(0, samples.correct(0.5)))
    branch = start_branch(journal.folder, task)
    assert branch is not None
    with Follower(journal.folder, branch, print):
        pass
    story = git(repository, "log", "--format=%s%n%b", branch.name)
    assert "1.1 correct, no difference from eager (1.03 ×)" in story
    assert "2.1 correct, slower: 0.50 × eager" in story
    assert "Kevin-Speedup: 1.030 [1.009, 1.051] against eager, no difference" in story
    assert "none faster yet" in story
