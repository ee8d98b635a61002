"""`kevin apply RUN`: the winner of a run into the user's repository, as a commit, a patch, or only looked at.

What is applied is the package that `kevin optimize` writes, beside the module, without the libraries built for
this machine: it builds its own when it is first used. Only the package's folder is ever touched. The commit is
the user's own, on the branch that is checked out, so their hooks run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.commands import optimize
from kevin_cli.commands import session as sessions
from kevin_cli.commands.formats import write_result
from kevin_cli.commands.patch import patch_bytes
from kevin_cli.commands.recorded import read_run
from kevin_cli.commands.report import SCHEMA_VERSION, print_object, speedup_object
from kevin_cli.commands.session import Order
from kevin_cli.commands.unsaved import refuse_unsaved
from kevin_cli.errors import ExitCode, UsageError
from kevin_cli.package.sources import digest_of
from kevin_cli.package.write import package_path, refuse_foreign, write
from kevin_cli.refine.git_branch import first_line, open_repository
from kevin_cli.refine.journal import RecordedRun
from kevin_cli.refine.result import find_turn, speed
from kevin_cli.show.final import verdict_block
from kevin_cli.types import Candidate, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """What a run may put into the user's code."""

    run: RecordedRun
    candidate: Candidate
    final: Verdict

    @property
    def home(self) -> Path:
        """The folder of the module."""
        return Path(self.run.header.task.target.path).parent

    @property
    def package(self) -> Path:
        return package_path(self.run.header.task, self.home)

    def write_into(self, folder: Path) -> Path:
        header = self.run.header
        assert header.report is not None
        return write(header.task, self.candidate, self.final, header.report, folder, judged_at=header.created)


def run(name: str, flags: Mapping[str, Any], *, diff: bool, check: bool, patch: Path | None, allow_dirty: bool) -> int:
    """Raises `UsageError` for a run without a verified winner, or for files that it would overwrite."""
    order = sessions.take_order(flags)
    if sum((diff, check, patch is not None)) > 1:
        raise UsageError("--diff, --check and --patch exclude each other", "choose one")
    winner = find_winner(read_run(name, order.settings.runs))
    refuse_foreign(winner.package)
    if not check:
        refuse_edited(order, winner)
    if diff or patch:
        return _patch(order, winner, patch)
    if not allow_dirty:
        refuse_unsaved(winner.package)
    if check:
        return sessions.run_to_end(_check(order, winner))
    return _apply(order, winner)


def find_winner(recorded: RecordedRun) -> Winner:
    """Raises `UsageError` unless the run ended with a kernel that was verified as faster."""
    ending, report = recorded.ending, recorded.header.report
    place = ending.winner if ending else None
    turn = find_turn(recorded.trajectories, place) if place else None
    if not ending or ending.outcome != "faster" or not ending.final or not turn or not turn.candidate or not report:
        how = f"it ended as {ending.outcome.replace('_', ' ')}" if ending else "it has not ended"
        raise UsageError(f"{recorded.id} has no verified faster kernel: {how}", f"kevin show {recorded.id}")
    if not Path(recorded.header.task.target.path).is_file():
        raise UsageError(f"{recorded.header.task.target.path} is not there any more", "apply puts the kernel beside it")
    return Winner(run=recorded, candidate=turn.candidate, final=ending.final)


def refuse_edited(order: Order, winner: Winner) -> None:
    """Raises `UsageError` when the module computes something else by now; only a file that was edited is read."""
    header = winner.run.header
    target = sessions.recorded_target(header.task.target, order.settings)
    if digest_of(Path(target.path)) == header.sources_sha256:
        return

    async def lower_again() -> None:
        device = header.task.contract.device
        async with sessions.open_judge(order.settings, target, device, winner.final.rules) as judge:
            optimize.refuse_changed(winner.run, await sessions.lower_target(judge, target))

    sessions.run_to_end(lower_again())


def _patch(order: Order, winner: Winner, path: Path | None) -> int:
    """On stdout or into a file: what `git apply` takes where the last commit is checked out."""
    text = patch_bytes(winner.home, winner.package, winner.write_into)
    if path is not None:
        write_result(path, text, "--patch")
        order.screen.say(f"written to {path}: the change since the last commit, for git apply {path}")
    if order.as_json:
        plain = text.decode("utf-8", "replace")
        print_object({"schema_version": SCHEMA_VERSION, "run": winner.run.id, "diff": plain})
    elif path is None:
        sys.stdout.buffer.write(text)
    return int(ExitCode.OK)


# --- the working tree ------------------------------------------------------------------------------


def _apply(order: Order, winner: Winner) -> int:
    output = winner.write_into(winner.home)
    commit, is_new = commit_package(winner, output)
    where = (
        f"{'' if is_new else 'already '}committed as {commit[:10]}"
        if commit
        else "not committed: there is no git repository"
    )
    if order.as_json:
        done = {"run": winner.run.id, "output": str(output), "commit": commit or None}
        print_object({"schema_version": SCHEMA_VERSION, **done})
    else:
        order.screen.result(f"written to {output}; {where}")
    return int(ExitCode.OK)


def commit_package(winner: Winner, output: Path) -> tuple[str, bool]:
    """The commit's name, empty without a repository, and whether it was made now.

    Only the package is committed, whatever else is staged.
    """
    import git

    repository = open_repository(winner.home)
    if repository is None:
        return "", False
    comparison = speed(winner.final, winner.run.header.settings.baseline)
    faster = f": {comparison.median:.2f} × {comparison.baseline}" if comparison else ""
    message = f"Use kevin's kernel for {winner.run.header.task.name}{faster}\n\nKevin-Run: {winner.run.id}\n"
    try:
        repository.git.add("--force", "--", str(output))
        if not repository.git.status("--porcelain", "--", str(output)):
            return str(repository.head.commit.hexsha), False
        repository.git.commit("--quiet", "--only", "-m", message, "--", str(output))
    except git.GitCommandError as error:
        raise UsageError(
            f"written to {output}, but git refused the commit: {first_line(error)}", "commit it yourself"
        ) from error
    return str(repository.head.commit.hexsha), True


# --- the check -------------------------------------------------------------------------------------


async def _check(order: Order, winner: Winner) -> int:
    """0: the module is the same, nothing is in the way, and the kernel is verified again and still faster."""
    header = winner.run.header
    target = sessions.recorded_target(header.task.target, order.settings)
    device = header.task.contract.device
    async with sessions.open_judge(order.settings, target, device, winner.final.rules) as judge:
        task = await sessions.lower_target(judge, target)
        optimize.refuse_changed(winner.run, task)
        session = await sessions.open_session(judge, task, order.screen)
        verdict = await judge.judge(task, winner.candidate, final=True)
    comparison = speed(verdict, header.settings.baseline)
    holds = bool(comparison and comparison.is_faster)
    if order.as_json:
        found = {"run": winner.run.id, "holds": holds, "outcome": verdict.outcome.value, "detail": verdict.detail}
        print_object({"schema_version": SCHEMA_VERSION, **found, "speedup": speedup_object(verdict)})
    else:
        order.screen.result(verdict_block(verdict, session.report, "the kernel"))
        order.screen.result("it still holds" if holds else "it does not hold here any more")
    return int(ExitCode.OK if holds else ExitCode.NOT_BETTER)
