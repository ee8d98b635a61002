"""A task that is ready to be judged: its reference runs, shares memory, and its baselines are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from kevin_cli.errors import InfraError, KevinError, TaskError
from kevin_cli.harness import known
from kevin_cli.harness.elsewhere import has_own_module
from kevin_cli.harness.faults import CandidateFault, ReferenceFault, ReferenceLost
from kevin_cli.harness.flops import count_flops, float32_kinds
from kevin_cli.harness.in_graph import InGraph, baselines_in_graph, capture_baselines, capture_known, choose_slots
from kevin_cli.harness.reference_side import Arenas, ReferenceSide, reference_launch
from kevin_cli.harness.timing import (
    AGAIN,
    EAGER,
    ELSEWHERE,
    Measured,
    Plan,
    Run,
    Samples,
    Side,
    floor_of,
    measure,
    summaries,
)
from kevin_cli.harness.verify import secret_seed
from kevin_cli.harness.worker_side import WorkerSide
from kevin_cli.types import DeviceKind, Target, Task, TaskReport

COMPILE, REDUCE_OVERHEAD, MAX_AUTOTUNE = "compile", "reduce-overhead", "max-autotune"
NEAR = 1.2
"""Times the fastest baseline: slower ones are left out of the rounds of candidates that are not final."""
COMPILE_LIMIT_S, AUTOTUNE_LIMIT_S, TF32_LIMIT_S = 150.0, 120.0, 60.0
"""How long a baseline may take to compile; what takes longer is missing, with that reason."""
LOOK_ROUNDS = 5
NOTHING_TO_TUNE = "there is no product or convolution; on a CPU it tunes nothing else"
ARENA_BYTES = {DeviceKind.CPU: 192 << 20, DeviceKind.CUDA: 36 << 30}
"""More than three times the last-level cache of what is usual, so that rotating slots leave it cold; on a
GPU enough for blocks that are long beside what the host adds to each (the reference takes no more than a part
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
    probed: dict[str, Any]
    """Names and versions of the device and of what runs on it."""
    in_graph: InGraph = field(default_factory=InGraph)
    report: TaskReport | None = None
    """Made once; a reference that was started again does not change it."""

    @property
    def plan(self) -> Plan:
        device, device_id = self.task.contract.device, self.probed["device_id"]
        return Plan(device=device, num_slots=self.arenas.num_slots, device_id=device_id)

    def has(self, baseline: str) -> bool:
        """Whether it is known what became of a baseline: it is there, or missing for a reason."""
        return baseline in self.baselines or baseline in dict(self.missing)

    def baseline_sides(self, *, final: bool = True) -> list[Side]:
        """Every baseline; before a final claim without those that are far from being the fastest."""
        names = self.baselines if final else [name for name in self.baselines if self._is_near(name)]
        return [baseline_side(self.reference, name) for name in names]

    def _is_near(self, baseline: str) -> bool:
        times = {name: timing.median_us for name, timing in self.report.baselines} if self.report else {}
        if baseline in (EAGER, COMPILE) or baseline not in times:
            return True
        return times[baseline] < NEAR * min(times.values())

    async def close(self) -> None:
        """End the reference and let go of the memory."""
        await self.reference.stop()
        self.arenas.close()


def baseline_side(reference: ReferenceSide, name: str, shown: str = "") -> Side:
    return Side(shown or name, lambda slots: reference.run(name, slots))


def late_run(reference: ReferenceSide, worker: WorkerSide) -> Run:
    """A worker's timed run: one element of each slot's inputs gets its value only then, and it rests otherwise."""

    async def run(slots: Sequence[int]) -> int:
        fixes = await reference.fixes(slots)
        await worker.thaw()
        try:
            return await worker.run(slots, fixes=fixes)
        finally:
            worker.freeze()

    return run


def as_error(fault: ReferenceFault) -> KevinError:
    """What the reference says is wrong, as what the user reads."""
    if fault.where == "internal":
        return InfraError(fault.message, fault.hint)
    return TaskError(fault.message, fault.hint)


async def start_reference(target: Target, device: DeviceKind) -> tuple[ReferenceSide, dict[str, Any]]:
    """Start the reference with the user's file. Raises `TaskError`, `MachineError` or `InfraError`."""
    reference = await launch_reference(target, device)
    return reference, await describe(reference, target, device)


async def launch_reference(target: Target, device: DeviceKind) -> ReferenceSide:
    """A reference program in the target's interpreter, before it reads the target. Raises `MachineError`."""
    return await ReferenceSide.start(reference_launch(target.python, device))


async def describe(reference: ReferenceSide, target: Target, device: DeviceKind) -> dict[str, Any]:
    """Let it read the user's file; it is ended when it can't. Raises `TaskError` or `InfraError`."""
    try:
        return await reference.describe(target, device.value)
    except ReferenceFault as fault:
        await reference.stop()
        raise as_error(fault) from fault
    except ReferenceLost as error:
        await reference.stop()
        raise TaskError(f"{target.path} ends the process that loads it: {error}") from error


def wanted_baselines(device: DeviceKind) -> tuple[str, ...]:
    """Beside eager. On a CPU `reduce-overhead` is the same as the default: it is about CUDA graphs."""
    return (COMPILE,) if device is DeviceKind.CPU else (COMPILE, REDUCE_OVERHEAD)


async def open_task(
    task: Task, reference: ReferenceSide, *, compiled: bool, why: str = "", max_bytes: int | None = None
) -> OpenedTask:
    """Share memory, show null candidates to the comparison, prepare the baselines.

    Not `compiled`: eager is the only baseline, and `why` says what became of the others.
    """
    arenas = await reference.open(max_bytes or ARENA_BYTES[task.contract.device])
    calibration = await reference.calibrate(secret_seed())
    names = (EAGER, *wanted_baselines(task.contract.device))
    without: dict[str, Any] = {"available": [EAGER], "missing": [[name, why] for name in names[1:]]}
    prepared = await reference.baselines(names, COMPILE_LIMIT_S) if compiled else without
    return OpenedTask(
        task=task,
        reference=reference,
        arenas=arenas,
        hashes=await reference.construct_hashes(),
        baselines=tuple(name for name in names if name in prepared["available"]),
        missing=tuple((name, why) for name, why in prepared["missing"]),
        calibration=calibration,
        probed=await reference.probe(),
    )


async def with_autotuned(opened: OpenedTask) -> OpenedTask:
    """One more baseline, for a candidate that beat torch.compile's default; or the reason why there is none."""
    if opened.has(MAX_AUTOTUNE) or COMPILE not in opened.baselines:
        return opened
    if opened.task.contract.device is DeviceKind.CPU and not count_flops_of(opened.task):
        return without(opened, MAX_AUTOTUNE, NOTHING_TO_TUNE)
    prepared = await opened.reference.baselines([MAX_AUTOTUNE], AUTOTUNE_LIMIT_S)
    why = dict(prepared["missing"]).get(MAX_AUTOTUNE)
    if why is not None:
        return without(opened, MAX_AUTOTUNE, why)
    return replace(opened, baselines=(*opened.baselines, MAX_AUTOTUNE))


def without(opened: OpenedTask, baseline: str, why: str) -> OpenedTask:
    """It is known now that this baseline cannot be had."""
    return replace(opened, missing=(*opened.missing, (baseline, why)))


def count_flops_of(task: Task) -> int:
    return sum(count_flops(task.graph).values()) if task.graph else 0


@dataclass(frozen=True, slots=True)
class Baselines:
    """What was measured of a task before any candidate."""

    times: Measured
    in_graph: InGraph
    device_times: Samples


async def measure_baselines(opened: OpenedTask, worker: WorkerSide) -> Baselines:
    """Every baseline, and the A/A run: eager a second time, and the same module in a worker; then in graphs."""
    others = await _other_tf32(opened)
    sides = [*opened.baseline_sides(), *others, baseline_side(opened.reference, EAGER, AGAIN)]
    own = await has_own_module(worker, opened.task, opened.reference, opened.arenas, opened.hashes)
    if own:
        sides.append(Side(ELSEWHERE, late_run(opened.reference, worker)))
    try:
        times = await measure(opened.reference, sides, opened.plan)
    except CandidateFault:
        own = False
        times = await measure(opened.reference, sides[:-1], opened.plan)
    if own:  # else nothing is loaded into it that could be asked
        await worker.thaw()
    if opened.task.contract.device is DeviceKind.CPU:
        return Baselines(times, InGraph(), {})
    fixed = choose_slots(opened.arenas.num_slots, median(times.samples[EAGER]))
    captured = await capture_baselines(opened.reference, worker if own else None, opened.baselines, fixed)
    if not captured.names:
        return Baselines(times, captured, {})
    return Baselines(times, captured, (await baselines_in_graph(opened.reference, captured, opened.plan)).samples)


async def _other_tf32(opened: OpenedTask) -> list[Side]:
    """Eager and compiled with TF32 as the user has it not, where the task's products are affected."""
    if opened.task.contract.device is DeviceKind.CPU:
        return []
    products, convolutions = float32_kinds(opened.task.graph)
    suffixes = await opened.reference.other_tf32(products=products, convolutions=convolutions)
    names = [f"{name}{suffix}" for suffix in suffixes for name in (EAGER, COMPILE) if name in opened.baselines]
    prepared = await opened.reference.baselines(names, TF32_LIMIT_S) if names else {"available": []}
    return [baseline_side(opened.reference, name) for name in names if name in prepared["available"]]


async def with_report(opened: OpenedTask, isolation: TaskReport, worker: WorkerSide) -> OpenedTask:
    """The same task with its report; `isolation` brings the fields that the sandbox knows.

    `worker` is fresh and used up here; the caller stops it.
    """
    found = await measure_baselines(opened, worker)
    samples, conditions = found.times.samples, found.times.conditions
    timings = summaries(samples)
    report = replace(
        isolation,
        **_about(opened),
        baselines=tuple(pair for pair in timings if pair[0] in opened.baselines),
        other_tf32=tuple(pair for pair in timings if pair[0] not in opened.baselines),
        noise_floor=floor_of(samples, opened.task.contract.device),
        device_times=summaries(found.device_times),
        not_in_graph=found.in_graph.missing,
        conditions=conditions,
    )
    return replace(opened, report=report, in_graph=found.in_graph)


async def with_kept_report(opened: OpenedTask, isolation: TaskReport, cache: Path) -> OpenedTask | None:
    """The same with what an earlier run measured; `None` when there is nothing, or eager takes another time today."""
    about = replace(isolation, **_about(opened))
    kept = known.load(known.place_of(cache, opened.task, about, opened.baselines))
    if kept is None or not known.agrees(kept, await _eager_us(opened), opened.task.contract.device):
        return None
    before = kept.report
    report = replace(
        about,
        baselines=before.baselines,
        other_tf32=before.other_tf32,
        noise_floor=before.noise_floor,
        device_times=before.device_times,
        not_in_graph=before.not_in_graph,
        conditions=before.conditions,
        measured=kept.measured,
    )
    return replace(opened, report=report, in_graph=await _captured_before(opened, report))


async def _eager_us(opened: OpenedTask) -> float:
    """A few rounds of eager alone."""
    plan = replace(opened.plan, min_rounds=LOOK_ROUNDS, max_rounds=LOOK_ROUNDS)
    measured = await measure(opened.reference, [baseline_side(opened.reference, EAGER)], plan)
    return median(measured.samples[EAGER])


async def _captured_before(opened: OpenedTask, report: TaskReport) -> InGraph:
    names = tuple(name for name, _ in report.device_times)
    if not names:
        return InGraph(missing=report.not_in_graph)
    fixed = choose_slots(opened.arenas.num_slots, report.baselines[0][1].median_us)
    return replace(await capture_known(opened.reference, names, fixed), missing=report.not_in_graph)


def keep(opened: OpenedTask, cache: Path) -> None:
    """For the next run of the same task."""
    report = opened.report
    if report is not None and not (report.conditions and report.conditions.num_disturbed):
        known.store(known.place_of(cache, opened.task, report, opened.baselines), replace(report, roofline=None))


def _about(opened: OpenedTask) -> dict[str, Any]:
    """What a report says of the task and the place, not of times."""
    return {
        "missing": opened.missing,
        "weak_check": opened.calibration["weak_check"],
        "reference_precision": opened.calibration["reference_precision"],
        "device_name": opened.probed["device_name"],
        "versions": tuple((str(name), str(version)) for name, version in opened.probed["versions"]),
    }


def with_old_report(opened: OpenedTask, before: OpenedTask) -> OpenedTask:
    """A reference that was started again is judged by what was measured before."""
    known_missing = [pair for pair in before.missing if not opened.has(pair[0])]
    missing = (*opened.missing, *known_missing)
    return replace(opened, report=before.report, calibration=before.calibration, missing=missing)
