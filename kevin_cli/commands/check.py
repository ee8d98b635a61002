"""`kevin check`: the judge alone, for a kernel from any source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kevin_cli.commands import session as sessions
from kevin_cli.commands.formats import Case, print_junit, print_line
from kevin_cli.commands.report import check_object, print_object
from kevin_cli.commands.session import Order, Session
from kevin_cli.errors import ExitCode, UsageError
from kevin_cli.show.final import verdict_block
from kevin_cli.types import Candidate, Outcome, Rules, Stage, Target, Verdict


def run(reference: str, candidate: Path, flags: Mapping[str, Any]) -> int:
    """0: correct; 1: not. Raises `KevinError` for what the user should read."""
    order = sessions.take_order(flags)
    target = sessions.find_target(reference, order)
    return sessions.run_to_end(_check(order, target, read_candidate(candidate)))


def read_candidate(path: Path) -> Candidate:
    """The program in a file. Raises `UsageError` unless it is text."""
    hint = "a candidate is a Python file that defines ModelNew"
    try:
        source = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}", hint) from error
    except IsADirectoryError as error:
        raise UsageError(f"{path} is a directory", hint) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not Python source (it is binary)", hint) from error
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", "check its path and permissions") from error
    if not source.strip():
        raise UsageError(f"{path} is empty", hint)
    return Candidate(source=source, digest=hashlib.sha256(source.encode()).hexdigest())


async def _check(order: Order, target: Target, candidate: Candidate) -> int:
    device = sessions.find_device(order.settings, target, order.screen)
    async with sessions.open_judge(order.settings, target, device, Rules.LIBRARY) as judge:
        task = await sessions.lower_target(judge, target)
        session = await sessions.open_session(judge, task, order.screen)

        def watch(stage: Stage) -> None:
            order.screen.say(f"{stage.value} …")

        verdict = await judge.judge(task, candidate, final=True, watch=watch)
    return _tell(order, session, verdict)


def case_of(name: str, verdict: Verdict, group: str = "") -> Case:
    """A verdict as JUnit knows it: not correct is a failure, a fault of ours an error."""
    words = f"{verdict.outcome.value}: {verdict.detail}"
    failure = "" if verdict.is_correct or verdict.outcome is Outcome.INFRA else words
    error = words if verdict.outcome is Outcome.INFRA else ""
    return Case(name=name, group=group, wall_s=verdict.wall_s, failure=failure, error=error, text=verdict.log)


def _tell(order: Order, session: Session, verdict: Verdict) -> int:
    if order.form == "junit":
        print_junit("kevin check", [case_of(session.task.name, verdict)])
    elif order.as_json:
        found = check_object(session.task, verdict, session.report, order.settings.baseline)
        (print_object if order.form == "json" else print_line)(found)
    else:
        order.screen.result(verdict_block(verdict, session.report, "the candidate"))
    if verdict.outcome is Outcome.INFRA:
        return int(ExitCode.INTERNAL)
    return int(ExitCode.OK if verdict.is_correct else ExitCode.NOT_BETTER)
