"""The embedded proposer as a policy: reads the task, writes a fused kernel, changes one thing a turn.

Needs no weights and no torch: the task's graph is plain data. Every turn is a whole program; the summary above it
says what was decided and why. It never returns the reference retyped: what it can't fuse it refuses (`explain`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

from kevin_cli.policies.embedded.cpu import cpu_kernel
from kevin_cli.policies.embedded.cuda import cuda_kernel
from kevin_cli.policies.embedded.details import Call
from kevin_cli.policies.embedded.module import candidate
from kevin_cli.policies.embedded.moves import Choice, Shape
from kevin_cli.policies.embedded.names import identifier
from kevin_cli.policies.embedded.passes import is_costly, needs_rows, runs_across
from kevin_cli.policies.embedded.plan import CpuPlan, CudaPlan, Plan, headline, plan_of
from kevin_cli.policies.embedded.reading import read
from kevin_cli.policies.embedded.regions import Kernel, NothingLeftError, Step, TorchCall, steps
from kevin_cli.policies.embedded.source import KernelSource
from kevin_cli.policies.embedded.space import RowProgram, cells_of, contiguous_strides
from kevin_cli.policies.embedded.tiles import product_in
from kevin_cli.policies.embedded.traffic import ITEM_BYTES
from kevin_cli.policies.embedded.tuning import Search, Tried, next_plan
from kevin_cli.policies.embedded.values import RefusedError, Value
from kevin_cli.types import Completion, DeviceKind, Limits, Node, Roofline, Rules, Task, Trajectory

Reading = Callable[[bool], tuple[tuple[Value, ...], tuple[Step, ...]]]
"""Outputs and steps, given whether convolutions run channels-last."""


def explain(task: Task, rules: Rules = Rules.LIBRARY) -> str | None:
    """Why it can't do this task, in one sentence; `None` when it can."""
    try:
        EmbeddedPolicy(rules).first(task)
    except RefusedError as refusal:
        return f"The embedded proposer cannot do this module: {refusal}."
    return None


def write(task: Task, plan: Plan, rules: Rules = Rules.LIBRARY) -> str:
    """The candidate for one plan, as Python source. Raises `RefusedError` for what it can't do."""
    return _written(task, partial(_read, task, rules), plan)


def _written(task: Task, reading: Reading, plan: Plan) -> str:
    outputs, found = reading(isinstance(plan, CudaPlan) and plan.channels_last)
    kernels = [step for step in found if isinstance(step, Kernel)]
    names = [f"{identifier(task.name)}{f'_{n + 1}' if len(kernels) > 1 else ''}_kernel" for n in range(len(kernels))]
    sources = tuple(_source(name, kernel, plan) for name, kernel in zip(names, kernels, strict=True))
    return candidate(task, found, outputs, sources, plan)


class EmbeddedPolicy:
    """Implements `types.Policy`. `seed` leads the order of the less promising changes.

    The trajectories of a run never propose the same: plans are shared out among `num_trajectories`, and what was
    proposed is remembered for copies of a trajectory, which have the plans of the one they come from. `roofline`,
    when it is known, is what the summaries measure a kernel by.
    """

    name = "embedded"

    def __init__(
        self,
        rules: Rules = Rules.LIBRARY,
        seed: int = 0,
        num_trajectories: int = 1,
        roofline: Roofline | None = None,
    ) -> None:
        self.rules = rules
        self.seed = seed
        self.num_trajectories = num_trajectories
        self.roofline = roofline
        self._proposed: dict[tuple[str, str], tuple[int, int]] = {}
        """Task and source -> the trajectory and the turn that proposed it."""

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        """One complete program and the sentence that explains it; a refusal is `finish_reason == "error"`."""
        try:
            answer = self._answer(trajectory)
        except RefusedError as refusal:
            return self._nothing(f"The embedded proposer cannot do this module: {refusal}.")
        if answer is None:
            return self._nothing("The embedded proposer has tried every change that it knows for this module.")
        choice, source = answer
        text = f"{choice.reason}\n\n```python\n{headline(choice.plan)}{source}```\n"
        return Completion(text=text, finish_reason="stop", model=self.name)

    def _nothing(self, why: str) -> Completion:
        return Completion(text="", finish_reason="error", model=self.name, error=why)

    def _answer(self, trajectory: Trajectory) -> tuple[Choice, str] | None:
        search = self._search(trajectory)
        choice = next_plan(tried_in(trajectory), search)
        if choice is None:
            return None
        source = search.text(choice.plan)
        self._proposed[trajectory.task.digest, source] = (trajectory.index, len(trajectory.turns))
        return choice, source

    def first(self, task: Task) -> str:
        """The first candidate of a task. Raises `RefusedError` for what it can't do."""
        search = self._search(Trajectory(task=task, index=0))
        return search.text(next(search.starts()).plan)

    def _search(self, trajectory: Trajectory) -> Search:
        task = trajectory.task
        reading = cache(partial(_read, task, self.rules))
        _, found = reading(False)

        def is_taken(text: str) -> bool:
            here = (trajectory.index, len(trajectory.turns))
            return self._proposed.get((task.digest, text), here) != here

        return Search(
            is_cpu=task.contract.device is DeviceKind.CPU,
            shape=_shape(found),
            index=trajectory.index,
            num_trajectories=self.num_trajectories,
            seed=self.seed * 1_000_003 + trajectory.index + int(task.digest[:8] or "0", 16),
            text=cache(partial(_written, task, reading)),
            is_taken=is_taken,
            bound=bound_of(trajectory, self.roofline),
        )

    async def close(self) -> None:
        """Nothing is held open."""


def tried_in(trajectory: Trajectory) -> tuple[Tried, ...]:
    """The earlier turns whose candidates are this proposer's."""
    turns = [(turn, plan_of(turn.candidate.source)) for turn in trajectory.turns if turn.candidate]
    return tuple(Tried(plan, turn.verdict) for turn, plan in turns if plan is not None)


def bound_of(trajectory: Trajectory, roofline: Roofline | None) -> str:
    """How near the best kernel is to what the device allows: `memory-bound at 61 % of the limit`."""
    best = trajectory.best("eager")
    found = best.verdict.against("eager") if best else None
    if found is None:
        return ""
    time_us = found.candidate_timing.median_us
    if roofline is not None:
        return f"{roofline.limited_by}-bound at {100 * roofline.share(time_us):.0f} % of the limit"
    num_bytes = trajectory.task.compulsory_bytes
    return f"{num_bytes / time_us / 1e3:.0f} GB/s of what has to move" if num_bytes else ""


def _read(task: Task, rules: Rules, channels_last: bool = False) -> tuple[tuple[Value, ...], tuple[Step, ...]]:
    """Outputs and steps; as torch gives convolutions, where another order does not fit."""
    try:
        return _read_all(task, rules, channels_last)
    except RefusedError:
        if not channels_last:
            raise
        return _read_all(task, rules, False)


def _read_all(task: Task, rules: Rules, channels_last: bool) -> tuple[tuple[Value, ...], tuple[Step, ...]]:
    """A module of which everything would stay with torch is written as own kernels after all."""
    try:
        return _read_under(task, rules, channels_last)
    except NothingLeftError as refusal:
        try:
            return _read_under(task, Rules.KERNELS, channels_last)
        except RefusedError:
            raise refusal from None


def _read_under(task: Task, rules: Rules, channels_last: bool) -> tuple[tuple[Value, ...], tuple[Step, ...]]:
    """What turns out not to fit any kernel is left to torch, one operation after the other."""
    left: frozenset[str] = frozenset()
    while True:
        try:
            outputs = read(task, rules, left, channels_last).outputs
            return outputs, steps(outputs, tuple(spec.strides for spec in task.output_specs))
        except RecursionError as error:
            raise RefusedError("its longest chain of operations is too long for one kernel") from error
        except RefusedError as refusal:
            more = left | {node.name for node in _nodes(task) if refusal.name and identifier(node.name) == refusal.name}
            if rules is not Rules.LIBRARY or more == left:
                raise
            left = more


def _nodes(task: Task) -> tuple[Node, ...]:
    return task.graph.nodes if task.graph else ()


def _source(name: str, kernel: Kernel, plan: Plan) -> KernelSource:
    return cpu_kernel(name, kernel, plan) if isinstance(plan, CpuPlan) else cuda_kernel(name, kernel, plan)


def _shape(found: tuple[Step, ...]) -> Shape:
    """That of the kernel with the most work."""
    kernels = [step for step in found if isinstance(step, Kernel)]
    largest = max(kernels, key=lambda kernel: math.prod(kernel.program.space.sizes))
    program = largest.program
    space, cells = program.space, cells_of(program)
    loads = [cell for cell in cells if cell.op == "load" and not cell.is_row and cell.source is not None]
    whole = [
        cell for cell in loads if cell.access is not None and any(cell.access.strides[: space.num_row_atoms] or [1])
    ]
    return Shape(
        num_rows=space.num_rows,
        num_columns=space.num_columns,
        has_reductions=needs_rows(program),
        has_kept=program.num_passes > 2 and any(is_costly(cell) for cell in cells if not cell.is_row),
        num_lanes=space.row_sizes[-1] if runs_across(program) else 0,
        item_bytes=min((ITEM_BYTES[cell.source.dtype] for cell in whole if cell.source), default=4),
        num_loads=len(whole),
        num_passes=program.num_passes,
        num_tiles=_num_tiles(program),
        has_convolutions=any(isinstance(step, TorchCall) and _is_convolution(step.value) for step in found),
    )


def _num_tiles(program: RowProgram) -> int:
    product = product_in(program)
    if product is None:
        return 0
    batch, left, right = (product.size(program, atoms) for atoms in (product.batch, product.left, product.right))
    return batch * -(-left // 128) * -(-right // 128)


def _is_convolution(value: Value) -> bool:
    """Whether torch does a two-dimensional convolution there that does not run channels-last already."""
    is_plain = isinstance(value.detail, Call) and value.detail.strides == contiguous_strides(value.shape)
    return is_plain and len(value.shape) == 4 and "conv" in str(value.detail)
