"""The programs of the task that is open: its reference, the workers that wait, and its baselines.

They are started before they are needed, and again when one of ours dies; opening another task ends those of the
one before. Nothing here decides about a candidate.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from kevin_cli.errors import InfraError, KevinError, MachineError
from kevin_cli.harness import opened as opening
from kevin_cli.harness.build.recorder import RECORDERS
from kevin_cli.harness.faults import ReferenceFault, ReferenceLost
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.harness.limits import measure_device, with_limit
from kevin_cli.harness.opened import COMPILE, MAX_AUTOTUNE, OpenedTask
from kevin_cli.harness.quiet import Quiet
from kevin_cli.harness.reference_side import ReferenceSide
from kevin_cli.harness.roofline import Ceilings
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
from kevin_cli.harness.worker_side import Spare, Surroundings, WorkerSide
from kevin_cli.types import DeviceKind, Target, Task, TaskReport


class TaskPrograms:
    """One task at a time."""

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.quiet = Quiet(settings.device, settings.pause)
        self.opened: OpenedTask | None = None
        self.spare: Spare | None = None
        self._starting = asyncio.Lock()
        self._launched: tuple[Target, ReferenceSide] | None = None
        """A reference that has not been told its target yet."""
        self._described: tuple[Target, ReferenceSide, dict[str, Any]] | None = None

    async def start(self) -> None:
        """Find the containment. Raises `MachineError` when it is weaker than the settings ask for."""
        self.sandbox = await asyncio.to_thread(Sandbox.find)
        if not self.sandbox.level.reaches(self.settings.isolation_minimum):
            raise MachineError(
                f"candidates cannot be contained by {self.settings.isolation_minimum.value}: {self.sandbox.note}",
                "run `kevin doctor` to see what this machine allows",
            )
        if self.settings.device is DeviceKind.CUDA:
            await asyncio.to_thread(self.sandbox.gpu_nodes)  # asks the driver; found out once
        self.scratch = make_scratch(self.settings.cache)

    async def end(self) -> None:
        """Close the task and remove the scratch folder."""
        await self.close_task()
        shutil.rmtree(self.scratch, ignore_errors=True)

    async def describe(self, target: Target) -> dict[str, Any]:
        """Load the user's module and describe it, in the form of a `Task` without name and digest.

        Raises `TaskError` when the module does not load, run or fit, `MachineError` without torch.
        """
        async with self._starting:
            return await self._describe(target)

    async def _describe(self, target: Target) -> dict[str, Any]:
        if self._launched is None or self._launched[0] != target:
            await self.close_task()
            await self._hide(target)
            self._launched = target, await opening.launch_reference(target, self.settings.device)
        (_, reference), self._launched = self._launched, None
        description = await opening.describe(reference, target, self.settings.device)
        self._described = (target, reference, description)
        return description

    async def _hide(self, target: Target) -> None:
        """Contain workers away from the target's folder, and let the first one warm up."""
        self.contained = await asyncio.to_thread(around, self.sandbox, target, self.settings)
        self.surroundings = Surroundings(
            python=target.python, device=self.settings.device, sandbox=self.contained, scratch=self.scratch
        )
        self.spare = Spare(self.surroundings, self.settings.call_timeout_s, self.settings.num_spares)
        self.spare.prepare()

    async def prepare(self, task: Task) -> None:
        """Start the task's programs and let them import torch, for `open_task` to find. Nothing is done on a GPU; on
        a CPU it would disturb whoever is timed. What goes wrong is said by `open_task`."""
        async with self._starting:
            if self._described is not None or self._launched is not None:
                return
            await self.close_task()  # what a start that was cancelled left
            await self._hide(task.target)
            with contextlib.suppress(KevinError):
                self._launched = task.target, await opening.launch_reference(task.target, self.settings.device)

    async def open_task(self, task: Task) -> TaskReport:
        """Prepare and measure the baselines, and find out whether the task can tell right from wrong."""
        async with self._starting:
            if self.opened is None or self.opened.task.digest != task.digest:
                self.opened = await self._open(task)
            assert self.opened.report is not None
            return self.opened.report

    async def measure_device(self, task: Task) -> Ceilings:
        """What this device can do at best, measured now and kept; `task` is any task on it."""
        await self.open_task(task)
        assert self.opened is not None
        try:
            async with self.quiet.measuring():
                return await measure_device(self.opened, self.settings.cache)
        except ReferenceFault as fault:
            raise opening.as_error(fault) from fault

    async def _open(self, task: Task) -> OpenedTask:
        try:
            opened = await self._open_or_without_compile(task)
            async with self.quiet.measuring():
                opened = await self._with_report(opened)
                return await with_limit(opened, self.settings.cache)
        except ReferenceFault as fault:
            raise opening.as_error(fault) from fault
        except ReferenceLost as error:
            raise InfraError(str(error), "run it again; if it happens again, try smaller inputs") from error

    async def _with_report(self, opened: OpenedTask) -> OpenedTask:
        """From an earlier run, or measured now: that uses up one worker, for the A/A run; the next starts when
        nothing is measured any more."""
        assert self.spare is not None
        cache = self.settings.cache
        kept = await opening.with_kept_report(opened, self._isolation(), cache)
        if kept is not None:
            return kept
        worker = await self.spare.take()
        try:
            measured = await opening.with_report(opened, self._isolation(), worker)
            await asyncio.to_thread(opening.keep, measured, cache)
            return measured
        finally:
            await worker.stop()
            self.spare.prepare()

    async def _open_or_without_compile(self, task: Task) -> OpenedTask:
        """A compiler that hangs or dies costs the compiled baseline, not the run."""
        reference = await self.reference_for(task)
        assert self.spare is not None
        await self.spare.wait()
        if not self.settings.compiled_baseline:
            return await opening.open_task(
                task, reference, compiled=False, why="it was not asked for", max_bytes=self.settings.arena_bytes
            )
        try:
            return await opening.open_task(task, reference, compiled=True, max_bytes=self.settings.arena_bytes)
        except ReferenceLost as error:
            why = str(error)
        reference = await self._restart(task)
        return await opening.open_task(task, reference, compiled=False, why=why, max_bytes=self.settings.arena_bytes)

    async def reference_for(self, task: Task) -> ReferenceSide:
        described = self._described
        if self.opened is not None or described is None or described[0] != task.target or not described[1].is_running:
            await self._describe(task.target)
        assert self._described is not None
        return self._described[1]

    async def _restart(self, task: Task) -> ReferenceSide:
        """A new reference process for the same module; the file must not have changed meanwhile."""
        before = self._described
        reference, description = await opening.start_reference(task.target, self.settings.device)
        if before is not None and description != before[2]:
            await reference.stop()
            raise InfraError(f"{task.target.path} changed while it was judged", "start again")
        self._described = (task.target, reference, description)
        return reference

    def _isolation(self) -> TaskReport:
        return TaskReport(baselines=(), isolation=self.sandbox.level, isolation_note=self.sandbox.note)

    async def limit_again(self) -> TaskReport:
        """The report with the device's ceilings measured anew."""
        assert self.opened is not None
        async with self.quiet.measuring():
            self.opened = await with_limit(self.opened, self.settings.cache, again=True)
        assert self.opened.report is not None
        return self.opened.report

    async def add_best_of_compile(self) -> bool:
        """Compile with max-autotune beside the other baselines; whether there is one more now."""
        assert self.opened is not None
        before = self.opened
        try:
            self.opened = await opening.with_autotuned(before)
        except ReferenceLost as error:
            # Not tried again with the reference that takes its place.
            self.opened = opening.without(before, MAX_AUTOTUNE, str(error))
            raise
        if (report := before.report) and self.opened.missing != before.missing:
            self.opened = replace(self.opened, report=replace(report, missing=self.opened.missing))
        return self.opened.baselines != before.baselines

    async def reopen(self, task: Task) -> None:
        """Everything of ours started anew, with the report as it was."""
        async with self._starting:
            await self._reopen(task)

    async def _reopen(self, task: Task) -> None:
        assert self.opened is not None
        before, self.opened = self.opened, None
        await before.close()
        reference = await self._restart(task)
        compiled = COMPILE in before.baselines
        why = dict(before.missing).get(COMPILE, "")
        opened = await opening.open_task(
            task, reference, compiled=compiled, why=why, max_bytes=self.settings.arena_bytes
        )
        self.opened = opening.with_old_report(opened, before)

    @contextlib.asynccontextmanager
    async def worker(self) -> AsyncIterator[WorkerSide]:
        """A warm one for one candidate; the next is started when nothing is timed any more."""
        assert self.spare is not None
        worker = await self.spare.take()
        if self.settings.device is DeviceKind.CUDA:
            self.spare.prepare()  # it only imports meanwhile; the device it meets when it is given memory
        try:
            yield worker
        finally:
            await worker.stop()
            self.spare.prepare()

    async def close_task(self) -> None:
        """End every program of ours; safe to call at any time."""
        if self.opened is not None:
            self.opened.arenas.close()
        if self._launched is not None:
            await self._launched[1].stop()
        if self._described is not None:
            await self._described[1].stop()
        if self.spare is not None:
            await self.spare.close()
            await asyncio.to_thread(RECORDERS.release, self.contained.contain)
        self.opened = self._launched = self._described = self.spare = None


def around(sandbox: Sandbox, target: Target, settings: JudgeSettings) -> Sandbox:
    """The sandbox for candidates of one target: away from its folder and from ours."""
    hidden = [Path(target.path).parent, Path(target.path), settings.cache, *settings.hidden]
    return sandbox.around(hidden=hidden, readable=interpreter_folders(target.python))


def make_scratch(cache: Path) -> Path:
    """A folder of this process's own; those of processes that were killed are removed."""
    parent = cache / "scratch"
    parent.mkdir(parents=True, exist_ok=True)
    for old in parent.iterdir():
        if not psutil.pid_exists(int(old.name.split("-")[0])):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))
