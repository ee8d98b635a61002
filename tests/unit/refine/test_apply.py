"""`kevin apply`: the winner goes beside the module as a commit or a patch, and nothing else is touched."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import refine_samples as samples
from test_git import git

from kevin_cli.commands import apply
from kevin_cli.commands.unsaved import unsaved_files
from kevin_cli.errors import UsageError
from kevin_cli.package.evidence import hashes
from kevin_cli.package.sources import digest_of
from kevin_cli.refine.journal import load_run, open_run
from kevin_cli.refine.result import Ending, Place
from kevin_cli.refine.settings import RunSettings
from kevin_cli.types import Style, Target, Task, TaskReport, Timing

TALK = {"as_json": False, "quiet": True, "verbose": False}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a module, and a run of it that found a faster kernel."""
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (project / "models" / "layer_norm.py").write_text(samples.LAYER_NORM)
    monkeypatch.chdir(project)
    record(project, "faster")
    return project


def record(project: Path, outcome: str) -> str:
    task = samples.task()
    module = project / "models" / "layer_norm.py"
    task = replace(task, target=replace(task.target, path=str(module)))
    eager = Timing(median_us=100.0, low_us=99.0, high_us=101.0, num_samples=50)
    report = TaskReport(baselines=(("eager", eager),))
    settings = RunSettings(style=Style.GENERAL, baseline="eager")
    journal = open_run(
        task,
        policy="scripted",
        settings=settings,
        report=report,
        root=project / ".kevin" / "runs",
        sources_sha256=digest_of(module),
    )
    journal.record(0, samples.turn(0, samples.correct(1.8)))
    final = samples.correct(1.7) if outcome == "faster" else None
    winner = Place(trajectory=0, turn=0)
    journal.finish(Ending(outcome=outcome, baseline="eager", winner=winner, final=final))  # type: ignore[arg-type]
    return journal.id


def repository(home: Path, *, has_commit: bool = True) -> None:
    git(home, "init", "--quiet", "--initial-branch=main")
    git(home, "config", "user.email", "me@example.org")
    git(home, "config", "user.name", "me")
    if has_commit:
        git(home, "add", ".")
        git(home, "commit", "--quiet", "-m", "first")


def go(run: str = "last", *, diff: bool = False, patch: Path | None = None, allow_dirty: bool = False) -> int:
    return apply.run(run, TALK, diff=diff, check=False, patch=patch, allow_dirty=allow_dirty)


def test_the_winner_becomes_a_commit_and_other_staged_work_stays_staged(home: Path) -> None:
    repository(home)
    (home / "staged.txt").write_text("mine\n")
    git(home, "add", "staged.txt")
    assert go() == 0
    assert (home / "models" / "layer_norm_kevin" / "kernel.py").is_file()
    changed = git(home, "show", "--name-only", "--format=%s").splitlines()
    assert changed[0] == "Use kevin's kernel for layer_norm: 1.70 × eager"
    assert all(path.startswith("models/layer_norm_kevin/") for path in changed[2:])
    assert git(home, "status", "--porcelain") == "A  staged.txt"
    assert "Kevin-Run: layer_norm-" in git(home, "log", "-1", "--format=%B")


def test_nothing_is_committed_twice(home: Path) -> None:
    repository(home)
    go()
    name = git(home, "rev-parse", "HEAD")
    assert go() == 0
    kernel = git(home, "log", "--format=%H", "--", "models/layer_norm_kevin/kernel.py")
    assert kernel == name


def test_the_patch_is_what_git_applies(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    repository(home)
    assert go(diff=True) == 0
    assert git(home, "status", "--porcelain") == ""
    (tmp_path / "a.patch").write_text(capsys.readouterr().out)
    git(home, "apply", str(tmp_path / "a.patch"))
    assert (home / "models" / "layer_norm_kevin" / "kernel.py").read_text() == samples.candidate("0").source


def test_a_patch_file_changes_nothing_else(home: Path, tmp_path: Path) -> None:
    repository(home)
    assert go(patch=tmp_path / "kernel.patch") == 0
    assert "+class ModelNew" in (tmp_path / "kernel.patch").read_text()
    assert git(home, "status", "--porcelain") == ""


def test_uncommitted_changes_of_the_package_are_refused_unless_allowed(home: Path) -> None:
    repository(home)
    go()
    kernel = home / "models" / "layer_norm_kevin" / "kernel.py"
    kernel.write_text("# mine\n")
    (kernel.parent / "notes.txt").write_text("mine\n")
    with pytest.raises(UsageError, match=r"not committed: kernel\.py, notes\.txt"):
        go()
    assert kernel.read_text() == "# mine\n"
    assert go(allow_dirty=True) == 0
    assert "ModelNew" in kernel.read_text()


def as_optimize_left_it(home: Path, run: str = "layer_norm") -> Path:
    """The package with libraries, of another time, and what importing it leaves; none of it committed."""
    winner = apply.find_winner(load_run(run, root=home / ".kevin" / "runs"))
    package = winner.write_into(winner.home)
    record = json.loads((package / "verification.json").read_text())
    (package / "libraries").mkdir()
    (package / "libraries" / "one.so").write_bytes(b"\x7fELF\0\xff" * 50)
    record["files"] |= hashes(package, ["libraries/one.so"])
    (package / "verification.json").write_text(json.dumps(record | {"written": "2020-01-01T00:00:00+00:00"}))
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "kernel.pyc").write_bytes(b"\0\1")
    return package


@pytest.mark.parametrize("is_applied", [False, True])
def test_what_kevin_wrote_is_in_nobodys_way(home: Path, is_applied: bool) -> None:
    repository(home)
    if is_applied:
        go()
    package = as_optimize_left_it(home)
    assert unsaved_files(package) == []
    assert go() == 0
    assert not (package / "libraries").exists()
    assert git(home, "status", "--porcelain") == ""


def test_outside_of_a_repository_edits_are_refused_as_well(home: Path) -> None:
    package = as_optimize_left_it(home)
    assert unsaved_files(package) == []
    for name in ("kernel.py", "pyproject.toml"):
        (package / name).write_text("# mine\n")
    with pytest.raises(UsageError, match=r"kernel\.py, pyproject\.toml"):
        go()


@pytest.mark.parametrize("is_applied", [False, True])
def test_the_patch_applies_to_a_clean_clone_whatever_lies_in_the_folder(
    home: Path, tmp_path: Path, is_applied: bool
) -> None:
    """Libraries are no text, a module need not be UTF-8, and a user may have a form of diffs of their own."""
    coded = b"# -*- coding: latin-1 -*-\n# \xe4\n" + samples.LAYER_NORM.encode()
    (home / "models" / "layer_norm.py").write_bytes(coded)
    name = record(home, "faster")
    repository(home)
    git(home, "config", "diff.noprefix", "true")
    as_optimize_left_it(home, name)
    if is_applied:
        git(home, "add", "--force", "models")
        git(home, "commit", "--quiet", "-m", "with libraries")
    git(tmp_path, "clone", "--quiet", str(home), "clone")
    assert go(name, patch=tmp_path / "kernel.patch") == 0
    git(tmp_path / "clone", "apply", "--index", str(tmp_path / "kernel.patch"))
    assert go(name, allow_dirty=True) == 0
    assert git(tmp_path / "clone", "write-tree") == git(home, "rev-parse", "HEAD^{tree}")


def test_a_patch_that_can_not_be_written_is_said(home: Path) -> None:
    with pytest.raises(UsageError, match="can't write to"):
        go(patch=home / "nowhere" / "kernel.patch")


def test_a_module_that_was_edited_since_is_looked_at_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel was verified against the module of the run, and the package holds a copy of the file."""
    looked: list[str] = []

    async def lower(judge: object, target: Target) -> Task:
        looked.append(target.path)
        return replace(samples.task(), digest="1" * 64)

    monkeypatch.setattr(apply.sessions, "lower_target", lower)
    (home / "models" / "layer_norm.py").write_text(samples.LAYER_NORM.replace("LayerNorm", "RMSNorm"))
    with pytest.raises(UsageError, match="is not what it was when"):
        go()
    assert looked
    assert not (home / "models" / "layer_norm_kevin").exists()


def test_a_folder_that_kevin_did_not_write_is_refused(home: Path) -> None:
    repository(home)
    (home / "models" / "layer_norm_kevin").mkdir()
    (home / "models" / "layer_norm_kevin" / "mine.py").write_text("")
    with pytest.raises(UsageError, match="not written by kevin"):
        go(allow_dirty=True)


@pytest.mark.parametrize("has_commit", [True, False])
def test_hooks_run_and_may_refuse(home: Path, has_commit: bool) -> None:
    repository(home, has_commit=has_commit)
    hook = home / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho 'no kernels on Mondays' >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(UsageError, match="no kernels on Mondays"):
        go()
    hook.unlink()
    assert go(allow_dirty=True) == 0
    assert "layer_norm_kevin/kernel.py" in git(home, "show", "--name-only", "--format=")


def test_on_a_detached_head_the_commit_is_made_there(home: Path) -> None:
    repository(home)
    git(home, "checkout", "--quiet", "--detach")
    assert go() == 0
    assert git(home, "log", "-1", "--format=%s", "main") == "first"
    assert git(home, "log", "-1", "--format=%s").startswith("Use kevin's kernel")


def test_without_a_repository_the_folder_is_written(home: Path) -> None:
    assert go() == 0
    assert (home / "models" / "layer_norm_kevin" / "__init__.py").is_file()
    assert subprocess.run(["git", "-C", str(home), "rev-parse"], capture_output=True, check=False).returncode


def test_a_run_that_found_nothing_is_refused(home: Path) -> None:
    name = record(home, "no_gain")
    with pytest.raises(UsageError, match="no verified faster kernel: it ended as no gain"):
        go(name)


def test_the_package_says_what_was_verified(home: Path) -> None:
    go()
    evidence = json.loads((home / "models" / "layer_norm_kevin" / "verification.json").read_text())
    assert evidence["built_for"] == {}
