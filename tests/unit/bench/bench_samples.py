"""Rows with round numbers, and a judge that answers as it was told and counts how often it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kevin_cli.commands.bench import Plan
from kevin_cli.commands.bench_attempts import Attempt, TaskJudge
from kevin_cli.commands.bench_files import BenchTask
from kevin_cli.commands.session import Order
from kevin_cli.errors import KevinError
from kevin_cli.records import to_plain
from kevin_cli.refine.bench_rows import Row, Rows, Setup
from kevin_cli.settings import Settings
from kevin_cli.show.screen import open_screen
from kevin_cli.types import (
    Candidate,
    Comparison,
    Contract,
    DeviceKind,
    Graph,
    Node,
    NodeRef,
    Outcome,
    Roofline,
    StageWatch,
    Target,
    Task,
    TaskReport,
    TensorSpec,
    Timing,
    Tree,
    Verdict,
)

SETUP = Setup(
    device="cpu",
    device_name="AMD EPYC (2 cores)",
    versions=(("kevin", "0.1.0"), ("torch", "2.13.0+cpu"), ("python", "3.11.7")),
    rules="library",
    baseline="fastest",
)
SPEC = TensorSpec(shape=(4,), dtype="float32", strides=(1,))
LIMIT = Roofline(
    limit_us=20.0, limited_by="memory", num_bytes=80, num_flops=0, bytes_per_s=4e6, flops_per_s=0.0, is_certain=False
)


def comparison(baseline: str, ratio: float) -> Comparison:
    def timing(median_us: float) -> Timing:
        return Timing(median_us=median_us, low_us=median_us, high_us=median_us, num_samples=30)

    return Comparison(
        baseline=baseline,
        median=ratio,
        low=ratio * 0.98,
        high=ratio * 1.02,
        noise_floor=0.01,
        baseline_timing=timing(100.0),
        candidate_timing=timing(100.0 / ratio),
    )


def row(task: str, speedup: float | None = None, *, outcome: str = "", candidate: str = "k.py", **more: Any) -> Row:
    """A correct row with a speedup, or one with another outcome."""
    speed = comparison("eager", speedup) if speedup else None
    fields = {"task_digest": f"digest of {task}", "asked": candidate, "limit_us": 20.0, "limited_by": "memory"}
    return Row(
        date="2026-11-30T12:00:00+00:00",
        task=task,
        candidate=candidate,
        setup=SETUP,
        outcome=outcome or ("correct" if speedup else "mismatch"),
        detail="output 0: RMS error 3.1e-02, allowed 4.0e-07" if not speedup else "correct in every round",
        speed=speed,
        comparisons=(speed,) if speed else (),
        **{**fields, **more},
    )


def correct(ratio: float) -> Verdict:
    against = (comparison("eager", ratio), comparison("compile", ratio / 2))
    return Verdict(outcome=Outcome.CORRECT, detail="correct in every round", comparisons=against, seeds=(1, 2))


@dataclass
class ToldJudge:
    """Answers for a program by its text. `refusals`: what describing a file of that name raises."""

    verdicts: dict[str, Verdict]
    refusals: dict[str, KevinError] = field(default_factory=dict)
    judged: list[tuple[str, str]] = field(default_factory=list)
    num_opened: int = 0

    async def describe(self, target: Target) -> dict[str, Any]:
        name = target.path.rpartition("/")[2]
        if name in self.refusals:
            raise self.refusals[name]
        plain = to_plain(_task(target))
        return {key: value for key, value in plain.items() if key not in ("name", "digest", "target")}

    async def open_task(self, task: Task) -> TaskReport:
        self.num_opened += 1
        timing = comparison("eager", 1.0).baseline_timing
        return TaskReport(baselines=(("eager", timing),), roofline=LIMIT)

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        assert final, "a row is a claim"
        self.judged.append((task.target.path.rpartition("/")[2], candidate.source))
        return self.verdicts[candidate.source.strip()]

    def opener(self, target: Target) -> AbstractAsyncContextManager[TaskJudge]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[TaskJudge]:
            yield self

        return opened()


def _task(target: Target) -> Task:
    nodes = (
        Node(name="x", op="input", shape=(4,), dtype="float32"),
        Node(name="y", op="aten.relu.default", args=(NodeRef("x"),), shape=(4,), dtype="float32"),
        Node(name="output", op="output", args=(NodeRef("y"),)),
    )
    return Task(
        name="",
        digest="",
        target=target,
        source=Path(target.path).read_text() + target.path,
        init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"),
        inputs=Tree(kind="tuple", items=(Tree(kind="tensor", index=0),)),
        outputs=Tree(kind="tensor", index=0),
        output_specs=(SPEC,),
        parameters=(),
        contract=Contract(device=DeviceKind.CPU, inputs=(SPEC,)),
        graph=Graph(nodes=nodes),
    )


def plan(judge: ToldJudge, rows: Rows, attempts: Any, setup: Setup = SETUP) -> Plan:
    order = Order(settings=Settings(), screen=open_screen(quiet=True, verbose=False), as_json=False)
    return Plan(order=order, setup=setup, open_judge=judge.opener, attempts=attempts, rows=rows)


def no_attempts(_: BenchTask) -> Sequence[Attempt]:
    return []
