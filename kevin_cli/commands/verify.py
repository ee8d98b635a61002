"""`kevin verify PACKAGE`: what a package says about itself, part by part, on this machine.

The package's own copy of the user's code is the reference, its `kernel.py` the candidate. Five parts, each of
which rests on those before it: the files are those that were written (`content`), the module lowers to the
recorded contract (`contract`), the task can tell right from wrong (`weak_check`), the kernel is judged correct
(`correct`) and still faster than every baseline that it was faster than (`speed`). What can't be said, because
an earlier part does not hold or a baseline can't be had here, is said to be not checked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kevin_cli.commands import session as sessions
from kevin_cli.commands.formats import Case, junit, write_result
from kevin_cli.commands.report import SCHEMA_VERSION, print_object, speedup_object
from kevin_cli.commands.session import Order
from kevin_cli.errors import ExitCode, InfraError, NothingToOptimizeError, TaskError, UsageError
from kevin_cli.package.read import Package, changed_files, differences, read_package, unpack
from kevin_cli.tasks.target import find_python
from kevin_cli.types import Comparison, Nans, Outcome, Target, Task, TaskReport, Verdict

NAMES = ("content", "contract", "weak_check", "correct", "speed")
WORDS = {True: "holds", False: "no longer holds", None: "not checked"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that a package claims. `holds` is `None` when it was not checked."""

    name: str
    holds: bool | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All parts, and what they rest on, as far as it came."""

    parts: tuple[Part, ...]
    report: TaskReport | None = None
    verdict: Verdict | None = None

    @property
    def broken(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts if part.holds is False)


def run(folder: Path, junit_file: Path | None, flags: Mapping[str, Any]) -> int:
    """0: every part that could be checked holds; 1: one does not. Raises `KevinError` for what the user should
    read, e.g. a folder that is no package."""
    order = sessions.take_order(flags)
    package = read_package(folder)
    refuse_other_device(order, package)
    with tempfile.TemporaryDirectory(prefix="kevin-verify-") as scratch:
        target = unpack(package, Path(scratch) / "reference", find_python(order.settings.python or None))
        found = sessions.run_to_end(_verify(order, package, target))
    _tell(order, package, found, junit_file)
    return int(ExitCode.NOT_BETTER if found.broken else ExitCode.OK)


def refuse_other_device(order: Order, package: Package) -> None:
    """Raises `UsageError` when another device was asked for than the kernel is for."""
    asked, kind = order.settings.device, package.contract.device.value
    if asked not in ("auto", kind):
        raise UsageError(f"{package.folder.name} is for {kind}", f"leave --device {asked} away")


# --- part by part ----------------------------------------------------------------------------------


async def _verify(order: Order, package: Package, target: Target) -> Found:
    if changed := changed_files(package):
        return _ended("content", "; ".join(changed))
    content = Part(name="content", holds=True, detail="every file is what was written")
    # A package that does not claim to pass NaN on is not held to it.
    nans = order.settings.nans if package.verdict.nans is Nans.PROPAGATE else Nans.IGNORE
    settings = order.settings.model_copy(update={"device": package.contract.device.value, "nans": nans})
    device = sessions.find_device(settings, target, order.screen)
    rules = package.verdict.rules
    async with sessions.open_judge(settings, target, device, rules, compiled=_needs_compiler(order, package)) as judge:
        try:
            task = await sessions.lower_target(judge, target)
        except (TaskError, NothingToOptimizeError) as error:
            return _ended("contract", f"the module can't be judged here: {error.message}", content)
        if changed := differences(package, task):
            return _ended("contract", f"the module differs here in {', '.join(changed)}", content)
        session = await sessions.open_session(judge, task, order.screen)
        order.screen.say("judging the kernel again …")
        verdict = await judge.judge(task, package.candidate, final=True)
    if verdict.outcome is Outcome.INFRA:
        raise InfraError(f"{package.folder.name} could not be judged: {verdict.detail}", "run it again")
    contract = Part(name="contract", holds=True, detail=_contract_words(task))
    parts = (
        content,
        contract,
        weak_check_part(package.record["weak_check"], verdict),
        _correct(verdict),
        speed_part(order.settings.baseline, package.verdict, verdict),
    )
    return Found(parts=parts, report=session.report, verdict=verdict)


def _needs_compiler(order: Order, package: Package) -> bool:
    """Whether torch.compile has to be measured: it was compared with, and is asked about."""
    others = [one for one in package.verdict.comparisons if one.baseline != "eager"]
    return bool(others) and order.settings.baseline != "eager"


def _ended(name: str, detail: str, *before: Part) -> Found:
    """One part does not hold, so those after it can't be asked about."""
    rest = NAMES[NAMES.index(name) + 1 :]
    after = (Part(name=other, holds=None, detail=f"{name} does not hold") for other in rest)
    return Found(parts=(*before, Part(name=name, holds=False, detail=detail), *after))


def _contract_words(task: Task) -> str:
    inputs = ", ".join(f"{spec.dtype}{list(spec.shape)}" for spec in task.contract.inputs)
    return f"the module takes {inputs or 'no tensors'} on {task.contract.device.value}, as recorded"


def weak_check_part(recorded: str, verdict: Verdict) -> Part:
    """A task that was known to be weak may stay so; one that became weak verifies nothing."""
    now, before = verdict.weak_check, recorded
    words = f"this task can't tell right from wrong: {now}" if now else "the task tells right from wrong"
    return Part(name="weak_check", holds=bool(before) or not now, detail=words + ", as recorded" * bool(now and before))


def _correct(verdict: Verdict) -> Part:
    words = verdict.detail if verdict.is_correct else f"{verdict.outcome.value}: {verdict.detail}"
    return Part(name="correct", holds=verdict.is_correct, detail=words)


def speed_part(baseline: str, recorded: Verdict, verdict: Verdict) -> Part:
    """Every recorded win must be one again; what was no win before is not asked about."""
    if not verdict.is_correct:
        return Part(name="speed", holds=None, detail="correct does not hold")
    wins = [one for one in recorded.comparisons if one.is_faster]
    if baseline == "eager":
        wins = [one for one in wins if one.baseline == "eager"]
    if not wins:
        return Part(name="speed", holds=None, detail="no win was recorded")
    pairs = [(was, verdict.against(was.baseline)) for was in wins]
    measured = [now.is_faster for _, now in pairs if now]
    return Part(
        name="speed",
        holds=all(measured) if measured else None,
        detail="; ".join(_speed_words(was, now) for was, now in pairs),
    )


def _speed_words(was: Comparison, now: Comparison | None) -> str:
    if now is None:
        return f"against {was.baseline}: not measured here, recorded {was.median:.2f} times"
    interval = f"{now.low:.2f} … {now.high:.2f}, 95 %, noise floor {now.noise_floor:.2f}"
    return f"against {was.baseline}: {now.median:.2f} times ({interval}), recorded {was.median:.2f}"


# --- how it is told --------------------------------------------------------------------------------


def _tell(order: Order, package: Package, found: Found, junit_file: Path | None) -> None:
    if junit_file is not None:
        _write_junit(junit_file, package, found)
        order.screen.say(f"written to {junit_file}")
    if order.as_json:
        print_object(verify_object(package, found))
        return
    for line in lines_of(package, found):
        order.screen.result(line)


def lines_of(package: Package, found: Found) -> Sequence[str]:
    """A line for each part, and one for all."""
    parts = [f"  {part.name:<11}{WORDS[part.holds]:<17}{part.detail}" for part in found.parts]
    end = f"no longer holds: {', '.join(found.broken)}" if found.broken else "everything that was checked holds"
    return [f"{package.folder.name}: {end}", *parts]


def verify_object(package: Package, found: Found) -> dict[str, Any]:
    """The result of `kevin verify --json`."""
    report, verdict, record = found.report, found.verdict, package.record
    return {
        "schema_version": SCHEMA_VERSION,
        "package": str(package.folder),
        "task": record["name"],
        "device": package.contract.device.value,
        "holds": not found.broken,
        "broken": list(found.broken),
        "parts": [{"name": part.name, "holds": part.holds, "detail": part.detail} for part in found.parts],
        "outcome": verdict.outcome.value if verdict else None,
        "speedup": speedup_object(verdict) if verdict and verdict.is_correct else None,
        "isolation": verdict.isolation.value if verdict else None,
        "here": {"device_name": report.device_name, "versions": dict(report.versions)} if report else None,
        "recorded": {"device_name": record["device_name"], "versions": record["versions"]},
    }


def _write_junit(file: Path, package: Package, found: Found) -> None:
    """A part that was not checked is skipped. Raises `UsageError` when the file can't be written."""
    cases = [_case(package, part) for part in found.parts]
    write_result(file, junit(f"kevin verify {package.folder.name}", cases) + "\n", "--junit")


def _case(package: Package, part: Part) -> Case:
    failure, skipped = (part.detail if part.holds is value else "" for value in (False, None))
    return Case(name=part.name, group=package.folder.name, failure=failure, skipped=skipped, text=part.detail)
