"""What `optimize`, `check` and `doctor` share: from the command line to a judge with a task that is ready."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kevin_cli import tasks
from kevin_cli.commands.capture import captured, captures_folder
from kevin_cli.commands.formats import Format
from kevin_cli.errors import MachineError, NothingToOptimizeError, StoppedError, TaskError
from kevin_cli.harness.build.build import driver_capability
from kevin_cli.harness.device import choose as choose_device
from kevin_cli.harness.examine import build_candidate
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.sandbox import Sandbox
from kevin_cli.package.write import Finished
from kevin_cli.policies.serving.gpus import find_gpus, read_indices, split_gpus
from kevin_cli.settings import Settings, read
from kevin_cli.show.baselines import baselines_table
from kevin_cli.show.screen import Screen, open_screen
from kevin_cli.tasks.target import NOTHING_GIVEN, Given, find_python
from kevin_cli.types import Candidate, DeviceKind, Judge, Pause, Rules, Target, Task, TaskReport

T = TypeVar("T")

BUILD_TIMEOUT_S = 180.0
"""For a build that was made before; only a cleared cache makes it take time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for, and how to talk about it."""

    settings: Settings
    screen: Screen
    as_json: bool
    """Whether stdout is for programs: in which form, says `form`."""
    form: Format = "text"
    given: Given = NOTHING_GIVEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A judge that has opened a task: what verdicts need."""

    judge: TaskJudge
    task: Task
    report: TaskReport


class Describes(Protocol):
    """The part of a judge that reads a user's file."""

    async def describe(self, target: Target) -> dict[str, Any]: ...


class TaskJudge(Judge, Describes, Protocol):
    """A judge from a user's file to verdicts."""

    async def open_task(self, task: Task) -> TaskReport: ...


def take_order(flags: Mapping[str, Any]) -> Order:
    """Apart: how to talk, and what goes into the settings."""
    given = dict(flags)
    form: Format = given.pop("output_format", None) or ("json" if given["as_json"] else "text")
    given.pop("as_json")
    screen = open_screen(quiet=given.pop("quiet"), verbose=given.pop("verbose"))
    about = Given(
        recipes=given.pop("recipes", None) or (),
        inputs=given.pop("inputs", None) or "",
        weights=given.pop("weights", None),
        run=given.pop("run", None) or "",
        run_timeout_s=given.pop("run_timeout", None) or NOTHING_GIVEN.run_timeout_s,
        name=given.pop("name", None) or "",
    )
    return Order(settings=read(given), screen=screen, as_json=form != "text", form=form, given=about)


def find_target(text: str, order: Order) -> Target:
    """The target, with inputs captured from the user's own run where `--run` asks for it."""
    target = tasks.parse_target(text, order.settings.python or None, order.given)
    return captured(target, order.given, order.settings, order.screen) if order.given.run else target


def recorded_target(target: Target, settings: Settings) -> Target:
    """The target of a recorded run, in the interpreter that is asked for now. Raises `TaskError` when it is gone."""
    if not Path(target.path).is_file():
        raise TaskError(f"there is no file {target.path} any more", "put it back where the run found it")
    return replace(target, python=find_python(settings.python)) if settings.python else target


def find_device(settings: Settings, target: Target, screen: Screen) -> DeviceKind:
    """The device that was asked for, or the best one that works; says which, and why."""
    choice = choose_device(settings.device, target.python)
    screen.say(f"device: {choice.why}")
    return choice.kind


def use_gpus(settings: Settings) -> None:
    """Let this process and what it starts see the GPU for kernels first, then those of the model.

    Raises `UsageError` for a GPU that is not there. Servers are given their GPUs by themselves.
    """
    if not settings.model_gpus and not settings.kernel_gpus:
        return
    count = len(find_gpus().gpus)
    split = split_gpus(
        count,
        read_indices(settings.model_gpus, "--model-gpus", count),
        read_indices(settings.kernel_gpus, "--kernel-gpus", count),
    )
    visible = dict.fromkeys([*split.kernels, *split.model])
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, visible))


@asynccontextmanager
async def open_judge(
    settings: Settings,
    target: Target,
    device: DeviceKind,
    rules: Rules,
    pause: Pause = nullcontext,
    *,
    compiled: bool = True,
) -> AsyncIterator[LocalJudge]:
    """The local judge, ended whatever happens inside. `rules` hold unless the user chose others; `pause` is held
    while something is measured; `compiled`: whether torch.compile is measured beside eager."""
    async with LocalJudge(judge_settings(settings, target, device, rules, pause, compiled=compiled)) as judge:
        yield judge


def judge_settings(
    settings: Settings, target: Target, device: DeviceKind, rules: Rules, pause: Pause, *, compiled: bool = True
) -> JudgeSettings:
    """Raises `MachineError` when builds can't be kept."""
    make_cache(settings.cache)
    limits: dict[str, Any] = {}
    if settings.timeout:
        limits = {"build_timeout_s": settings.timeout, "call_timeout_s": settings.timeout}
    return JudgeSettings(
        device=device,
        rules=settings.rules or rules,
        python=target.python,
        cache=settings.cache.absolute(),
        isolation_minimum=settings.isolation,
        nans=settings.nans,
        sanitize=settings.sanitize,
        pause=pause,
        compiled_baseline=compiled,
        hidden=(settings.runs.absolute(), captures_folder(settings)),
        **limits,
    )


def make_cache(path: Path) -> None:
    """Raises `MachineError` when builds can't be kept there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise MachineError(
            f"can't write to {path}: {error.strerror}", "name another folder with KEVIN_CACHE"
        ) from error


async def lower_target(judge: Describes, target: Target) -> Task:
    """Raises `TaskError` for what is wrong with the file, `NothingToOptimizeError` when it computes nothing."""
    task = tasks.lower(target, await judge.describe(target))
    if not tasks.has_compute(task):
        raise NothingToOptimizeError(
            f"{target.class_name} computes nothing: it only passes tensors on", "point at a module with work to do"
        )
    return task


async def open_session(judge: TaskJudge, task: Task, screen: Screen) -> Session:
    """Measure the baselines and show them."""
    screen.say(f"measuring the baselines of {task.name} …")
    report = await judge.open_task(task)
    screen.say(baselines_table(task, report))
    return Session(judge=judge, task=task, report=report)


async def finished_libraries(settings: Settings, task: Task, candidate: Candidate) -> Finished:
    """Where the libraries lie that the judge built and verified; found by content, built again only if cleared."""
    built = await build_candidate(
        task,
        candidate,
        sandbox=Sandbox.find(),
        cache=settings.cache.absolute(),
        timeout_s=settings.timeout or BUILD_TIMEOUT_S,
    )
    capability = driver_capability() if task.contract.device is DeviceKind.CUDA else None
    return Finished(directory=built.directory, capability=f"{capability[0]}.{capability[1]}" if capability else "")


def run_to_end(story: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, with a word when the user interrupts before there is a result. Raises `StoppedError`."""
    try:
        return asyncio.run(story)
    except KeyboardInterrupt as error:
        raise StoppedError("interrupted; nothing was found yet and nothing was written") from error
