"""The embedded proposer as a policy: reads the task, writes a fused kernel, changes one thing a turn.

Needs no weights and no torch: the task's graph is plain data. Every turn is a whole program; the summary above it
says what was decided and why. It never returns the reference retyped: what it can't fuse it refuses (`explain`).
"""

from __future__ import annotations

import math
from functools import cache, partial

from kevin_cli.policies.embedded.cpu import cpu_kernel
from kevin_cli.policies.embedded.cuda import cuda_kernel
from kevin_cli.policies.embedded.module import candidate
from kevin_cli.policies.embedded.names import identifier
from kevin_cli.policies.embedded.passes import is_costly
from kevin_cli.policies.embedded.plan import CpuPlan, Plan
from kevin_cli.policies.embedded.reading import read
from kevin_cli.policies.embedded.regions import Kernel, Step, steps
from kevin_cli.policies.embedded.source import KernelSource
from kevin_cli.policies.embedded.space import cells_of
from kevin_cli.policies.embedded.tuning import Choice, Search, Shape, next_plan, replay
from kevin_cli.policies.embedded.values import RefusedError, Value
from kevin_cli.types import Completion, DeviceKind, Limits, Node, Rules, Task, Trajectory


def explain(task: Task, rules: Rules = Rules.LIBRARY) -> str | None:
    """Why it can't do this task, in one sentence; `None` when it can."""
    try:
        _answer(Trajectory(task=task, index=0), rules, 0)
    except RefusedError as refusal:
        return f"The embedded proposer cannot do this module: {refusal}."
    return None


def write(task: Task, plan: Plan, rules: Rules = Rules.LIBRARY) -> str:
    """The candidate for one plan, as Python source. Raises `RefusedError` for what it can't do."""
    return _written(task, *_read(task, rules), plan)


def _written(task: Task, outputs: tuple[Value, ...], found: tuple[Step, ...], plan: Plan) -> str:
    kernels = [step for step in found if isinstance(step, Kernel)]
    names = [f"{identifier(task.name)}{f'_{n + 1}' if len(kernels) > 1 else ''}_kernel" for n in range(len(kernels))]
    sources = tuple(_source(name, kernel, plan) for name, kernel in zip(names, kernels, strict=True))
    return candidate(task, found, outputs, sources, plan)


class EmbeddedPolicy:
    """Implements `types.Policy`. `seed` leads the order of the less promising changes."""

    name = "embedded"

    def __init__(self, rules: Rules = Rules.LIBRARY, seed: int = 0) -> None:
        self.rules = rules
        self.seed = seed

    async def propose(self, trajectory: Trajectory, limits: Limits) -> Completion:
        """One complete program and the sentence that explains it; a refusal is `finish_reason == "error"`."""
        try:
            choice, source = _answer(trajectory, self.rules, self.seed)
        except RefusedError as refusal:
            message = f"The embedded proposer cannot do this module: {refusal}."
            return Completion(text="", finish_reason="error", model=self.name, error=message)
        return Completion(text=f"{choice.reason}\n\n```python\n{source}```\n", finish_reason="stop", model=self.name)

    async def close(self) -> None:
        """Nothing is held open."""


def _read(task: Task, rules: Rules) -> tuple[tuple[Value, ...], tuple[Step, ...]]:
    """Outputs and steps; what turns out not to fit any kernel is left to torch, one operation after the other."""
    left: frozenset[str] = frozenset()
    while True:
        try:
            outputs = read(task, rules, left).outputs
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


def _answer(trajectory: Trajectory, rules: Rules, seed: int) -> tuple[Choice, str]:
    """The next plan of a trajectory and its source; earlier plans follow from their verdicts."""
    task = trajectory.task
    outputs, found = _read(task, rules)
    text = cache(partial(_written, task, outputs, found))
    search = Search(
        is_cpu=task.contract.device is DeviceKind.CPU,
        shape=_shape([step for step in found if isinstance(step, Kernel)]),
        start=trajectory.index,
        seed=seed * 1_000_003 + trajectory.index + int(task.digest[:8] or "0", 16),
        text=text,
    )
    choice = next_plan(replay([turn.verdict for turn in trajectory.turns], search), search)
    return choice, text(choice.plan)


def _shape(kernels: list[Kernel]) -> Shape:
    """That of the kernel with the most work."""
    largest = max(kernels, key=lambda kernel: math.prod(kernel.program.space.sizes))
    program = largest.program
    has_kept = program.num_passes > 2 and any(is_costly(cell) for cell in cells_of(program) if not cell.is_row)
    return Shape(program.space.num_rows, program.space.num_columns, bool(program.reductions), has_kept)
