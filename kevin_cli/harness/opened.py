"""A task that is ready to be judged: its reference runs, shares memory, and its baselines are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kevin_cli.errors import InfraError, KevinError, TaskError
from kevin_cli.harness.elsewhere import has_own_module
from kevin_cli.harness.faults import CandidateFault, ReferenceFault, ReferenceLost
from kevin_cli.harness.reference_side import Arenas, ReferenceSide, reference_launch
from kevin_cli.harness.timing import AGAIN, EAGER, ELSEWHERE, Plan, Samples, Side, baseline_timings, floor_of, measure
from kevin_cli.harness.verify import secret_seed
from kevin_cli.harness.worker_side import WorkerSide
from kevin_cli.types import DeviceKind, Target, Task, TaskReport

COMPILE = "compile"
ARENA_BYTES = {DeviceKind.CPU: 192 << 20, DeviceKind.CUDA: 12 << 30}
"""More than three times the last-level cache of what is usual, so that rotating slots leave it cold; on a
GPU enough for a block of ten calls with half a gigabyte each way (the reference takes no more than a part
of what is free)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTask:
    """What stays the same for all candidates of a task."""

    task: Task
    reference: ReferenceSide
    arenas: Arenas
    hashes: dict[str, str]
    """sha256 of the reference's parameters after construction."""
    baselines: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]
    calibration: dict[str, Any]
    report: TaskReport | None = None
    """Made once; a reference that was started again does not change it."""

    @property
    def plan(self) -> Plan:
        return Plan(device=self.task.contract.device, num_slots=self.arenas.num_slots)

    def baseline_sides(self) -> list[Side]:
        return [baseline_side(self.reference, name) for name in self.baselines]

    async def close(self) -> None:
        """End the reference and let go of the memory."""
        await self.reference.stop()
        self.arenas.close()


def baseline_side(reference: ReferenceSide, name: str, shown: str = "") -> Side:
    return Side(shown or name, lambda slots: reference.run(name, slots))


def as_error(fault: ReferenceFault) -> KevinError:
    """What the reference says is wrong, as what the user reads."""
    if fault.where == "internal":
        return InfraError(fault.message, fault.hint)
    return TaskError(fault.message, fault.hint)


async def start_reference(target: Target, device: DeviceKind) -> tuple[ReferenceSide, dict[str, Any]]:
    """Start the reference with the user's file. Raises `TaskError`, `MachineError` or `InfraError`."""
    reference = await ReferenceSide.start(reference_launch(target.python))
    try:
        return reference, await reference.describe(target, device.value)
    except ReferenceFault as fault:
        await reference.stop()
        raise as_error(fault) from fault
    except ReferenceLost as error:
        await reference.stop()
        raise TaskError(f"{target.path} ends the process that loads it: {error}") from error


async def open_task(
    task: Task, reference: ReferenceSide, *, compiled: bool, why: str = "", max_bytes: int | None = None
) -> OpenedTask:
    """Share memory, show null candidates to the comparison, prepare the baselines.

    Not `compiled`: eager is the only baseline, and `why` says what became of the other.
    """
    arenas = await reference.open(max_bytes or ARENA_BYTES[task.contract.device])
    calibration = await reference.calibrate(secret_seed())
    without: dict[str, Any] = {"available": [EAGER], "missing": [[COMPILE, why]]}
    prepared = await reference.baselines() if compiled else without
    return OpenedTask(
        task=task,
        reference=reference,
        arenas=arenas,
        hashes=await reference.construct_hashes(),
        baselines=tuple(prepared["available"]),
        missing=tuple((name, why) for name, why in prepared["missing"]),
        calibration=calibration,
    )


async def measure_baselines(opened: OpenedTask, worker: WorkerSide) -> Samples:
    """Every baseline, and the A/A run: eager a second time, and the same module in a worker."""
    sides = [*opened.baseline_sides(), baseline_side(opened.reference, EAGER, AGAIN)]
    if await has_own_module(worker, opened.task, opened.reference, opened.arenas, opened.hashes):
        sides.append(Side(ELSEWHERE, worker.run))
    try:
        return await measure(opened.reference, sides, opened.plan)
    except CandidateFault:
        return await measure(opened.reference, sides[:-1], opened.plan)


async def with_report(opened: OpenedTask, isolation: TaskReport, worker: WorkerSide) -> OpenedTask:
    """The same task with its report; `isolation` brings the fields that the sandbox knows.

    `worker` is fresh and used up here; the caller stops it.
    """
    samples = await measure_baselines(opened, worker)
    probed = await opened.reference.probe()
    found = replace(
        isolation,
        baselines=baseline_timings(samples),
        missing=opened.missing,
        weak_check=opened.calibration["weak_check"],
        reference_precision=opened.calibration["reference_precision"],
        noise_floor=floor_of(samples, opened.task.contract.device),
        device_name=probed["device_name"],
        versions=tuple((str(name), str(version)) for name, version in probed["versions"]),
    )
    return replace(opened, report=found)


def with_old_report(opened: OpenedTask, before: OpenedTask) -> OpenedTask:
    """A reference that was started again is judged by what was measured before."""
    return replace(opened, report=before.report, calibration=before.calibration)
