"""Keeps the branch `kevin/<run>` in step with the record of a run, beside the user's own work.

It follows the record: what stands in `turns.jsonl` becomes commits, in a thread of its own, so that no kernel is
timed slower for it; after a kill the next reader of the record makes the same commits again. Neither the working
tree nor the index is touched, no hook of the user's runs, and a repository that refuses ends the following, never
the run. `git.json` in the run's folder says where the branch is and what it started from.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kevin_cli.errors import KevinError
from kevin_cli.records import loads
from kevin_cli.refine.git_story import (
    Commit,
    ending_message,
    joining_message,
    opening_message,
    stream,
    turn_message,
)
from kevin_cli.refine.journal import Header, Line, RecordedRun, load_run
from kevin_cli.refine.result import find_turn, worth
from kevin_cli.refine.search import Selection
from kevin_cli.types import Task

if TYPE_CHECKING:
    from git import Repo

NO_HOOKS = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": os.devnull}
PLACE = "git.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """What `git.json` holds."""

    repository: str
    """The folder of the working tree."""
    name: str
    base: str
    """The commit that was checked out when the run began; empty in a repository without any."""
    path: str
    """Where the kernel stands, from the top of the repository."""


def open_repository(folder: Path) -> Repo | None:
    """The repository around a folder; `None` without one, without git, and for a bare one."""
    os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
    import git

    try:
        repository = git.Repo(folder, search_parent_directories=True)
        return None if repository.bare else repository
    except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.GitCommandNotFound, ValueError):
        return None


def start_branch(run: Path, task: Task) -> Branch | None:
    """Say where the run's commits go; `None` where there is no repository to put them into."""
    home = Path(task.target.path).resolve().parent
    repository = open_repository(home)
    if repository is None:
        return None
    top = Path(str(repository.working_tree_dir)).resolve()
    path = (home / f"{task.name}_kevin" / "kernel.py").relative_to(top).as_posix()
    base = repository.head.commit.hexsha if repository.head.is_valid() else ""
    branch = Branch(repository=str(top), name=f"kevin/{run.name}", base=base, path=path)
    (run / PLACE).write_text(json.dumps(asdict(branch), indent=1) + "\n")
    return branch


def read_branch(run: Path) -> Branch | None:
    """The branch of a recorded run, when it has one."""
    try:
        return Branch(**json.loads((run / PLACE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


class Follower:
    """Turns the lines of a record into commits, as they come: `with Follower(...) as f: f.poke()`."""

    def __init__(self, run: Path, branch: Branch, warn: Callable[[str], None]) -> None:
        """`warn` is told, once, why there are no more commits."""
        self._run, self.branch, self._warn = run, branch, warn
        self._story = _Story(run, branch)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="git")
        self._last: Future[None] | None = None
        self._has_failed = False

    def __enter__(self) -> Follower:
        self.poke()
        return self

    def __exit__(self, *_: object) -> None:
        """A fault of ours in the thread comes out here."""
        self.poke()
        self._thread.shutdown(wait=True)
        if self._last:
            self._last.result()

    def poke(self) -> None:
        """There may be something new; returns at once."""
        self._last = self._thread.submit(self._follow)

    def _follow(self) -> None:
        import git

        if self._has_failed:
            return
        try:
            self._story.catch_up()
        except (git.GitError, KevinError, OSError, ValueError) as error:
            self._has_failed = True
            self._warn(f"git: no more commits on {self.branch.name}: {first_line(error)}")


def first_line(error: Exception) -> str:
    """What git said, without the command and the quotes around it."""
    said = str(getattr(error, "stderr", "") or error).replace("stderr:", "").strip().strip("'").strip()
    return said.splitlines()[0] if said else type(error).__name__


class _Story:
    """The commits made so far; one thread at a time."""

    def __init__(self, run: Path, branch: Branch) -> None:
        self._run, self._branch = run, branch
        self._header: Header | None = None
        self._repository: Any = None
        self._offset = 0
        self._root = ""
        self._commits: dict[tuple[int, int], str] = {}
        self._tips: dict[int, str] = {}
        self._passed: set[str] = set()
        """Commits that have one after them."""
        self._parents: dict[int, tuple[int, int]] = {}
        self._best: tuple[tuple[bool, float], str, str, str] = ((False, 0.0), "", "", "")
        """Worth, place, source and commit of the best."""
        self._last_at = ""
        self._is_ended = False

    def catch_up(self) -> None:
        """One fast-import for every whole line that is new, and one for the end."""
        if self._header is None:
            self._begin()
        is_over = (self._run / "result.json").is_file()  # asked first: no line comes after it
        for line in self._new_lines():
            self._add(line)
        if is_over and not self._is_ended:
            self._end(load_run(self._run))

    def _begin(self) -> None:
        self._header = load_run(self._run).header
        self._repository = open_repository(Path(self._branch.repository))
        if self._repository is None:
            raise ValueError(f"there is no repository at {self._branch.repository} any more")
        base = (self._branch.base,) if self._branch.base else ()
        self._last_at = self._header.created
        (self._root,) = self._make(Commit(message=opening_message(self._header), at=self._last_at, parents=base))

    def _new_lines(self) -> list[Line]:
        path = self._run / "turns.jsonl"
        if not path.is_file():
            return []
        with path.open("rb") as file:
            file.seek(self._offset)
            whole, _, _ = file.read().rpartition(b"\n")
        self._offset += len(whole) + 1 if whole else 0
        return [loads(Line, text) for text in whole.split(b"\n")] if whole else []

    def _add(self, line: Line) -> None:
        assert self._header is not None
        turn, at = line.turn, line.at or self._last_at
        source = turn.candidate.source if turn.candidate else None
        parent = self._parent(line)
        self._passed.add(parent)
        commit = Commit(message=turn_message(self._header, line), at=at, parents=(parent,), source=source)
        self._tips[line.trajectory] = ":1"
        found = worth(turn.verdict, self._header.settings.baseline)
        if found > self._best[0] and source is not None:
            self._best = (found, f"{line.trajectory + 1}.{turn.index + 1}", source, ":1")
        self._last_at = at
        leaves = self._leaves()
        joined = [self._joining(leaves)] if len(leaves) > 1 else []
        name = self._make(commit, *joined)[0]
        self._tips[line.trajectory] = self._commits[line.trajectory, turn.index] = name
        self._best = (*self._best[:3], name if self._best[3] == ":1" else self._best[3])

    def _parent(self, line: Line) -> str:
        """The turn before; for the first of a copy, the one after which it was copied."""
        before = self._commits.get((line.trajectory, line.turn.index - 1))
        if before or line.turn.index == 0:
            return before or self._root
        if line.trajectory not in self._parents:
            self._read_selections()
        parent, num_turns = self._parents[line.trajectory]
        while (parent, num_turns - 1) not in self._commits:
            parent = self._parents[parent][0]
        return self._commits[parent, num_turns - 1]

    def _read_selections(self) -> None:
        for text in (self._run / "selections.jsonl").read_bytes().rpartition(b"\n")[0].split(b"\n"):
            for branch in loads(Selection, text).branches:
                self._parents[branch.trajectory] = (branch.parent, branch.num_turns)

    def _leaves(self) -> list[str]:
        """Where trajectories end, each once, the one with the fastest kernel first when it is one of them."""
        leaves = dict.fromkeys(tip for _, tip in sorted(self._tips.items()) if tip not in self._passed)
        first = [self._best[3]] if self._best[3] in leaves else []
        return [*first, *(leaf for leaf in leaves if leaf not in first)]

    def _joining(self, leaves: list[str]) -> Commit:
        assert self._header is not None
        message = joining_message(self._header, self._best[1], is_faster=self._best[0][0])
        return Commit(message=message, at=self._last_at, parents=tuple(leaves), source=self._best[2] or None)

    def _end(self, run: RecordedRun) -> None:
        assert run.ending is not None
        winner = find_turn(run.trajectories, run.ending.winner) if run.ending.winner else None
        source = winner.candidate.source if winner and winner.candidate else None
        parents = tuple(self._leaves()) or (self._root,)
        message = ending_message(run.header, run.ending)
        self._make(Commit(message=message, at=self._last_at, parents=parents, source=source))
        self._is_ended = True

    def _make(self, *commits: Commit) -> list[str]:
        """Their names. The branch points at the last of them."""
        with tempfile.TemporaryFile() as file:
            file.write(stream(self._branch.name, self._branch.path, commits))
            file.seek(0)
            said = self._repository.git.fast_import("--quiet", "--force", "--done", istream=file, env=NO_HOOKS)
        return str(said).split()
