"""Small real values for the tests of the loop: a task, verdicts, completions, and a judge that counts."""

from __future__ import annotations

import asyncio
import hashlib

from kevin_cli.types import (
    Candidate,
    Comparison,
    Completion,
    Contract,
    DeviceKind,
    Domain,
    Outcome,
    OutputCheck,
    ParameterSpec,
    Stage,
    StageWatch,
    Target,
    Task,
    TensorSpec,
    Timing,
    Trajectory,
    Tree,
    Turn,
    Verdict,
)

LAYER_NORM = '''
import torch
import torch.nn as nn


class Model(nn.Module):
    """Layer normalisation over the last dimension."""

    def __init__(self, size: int):
        super().__init__()
        self.ln = nn.LayerNorm(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.ln(x)
'''


def task(device: DeviceKind = DeviceKind.CUDA) -> Task:
    x = TensorSpec(shape=(16, 64), dtype="float32", strides=(64, 1), domain=Domain(kind="real", low=-3.0, high=3.0))
    tensor = Tree(kind="tensor", index=0)
    return Task(
        name="layer_norm",
        digest="0" * 64,
        target=Target(path="/models/layer_norm.py", class_name="Model", python="/usr/bin/python3"),
        source=LAYER_NORM,
        init=Tree(kind="tuple", items=(Tree(kind="value", value=64),)),
        init_keywords=Tree(kind="dict"),
        inputs=Tree(kind="tuple", items=(tensor,)),
        outputs=tensor,
        output_specs=(TensorSpec(shape=(16, 64), dtype="float32", strides=(64, 1)),),
        parameters=(
            ParameterSpec(name="ln.weight", shape=(64,), dtype="float32", kind="parameter"),
            ParameterSpec(name="ln.bias", shape=(64,), dtype="float32", kind="parameter"),
        ),
        contract=Contract(device=device, inputs=(x,)),
        graph=None,
    )


def program(mark: str = "") -> str:
    return f"import torch.nn as nn\n\n\nclass ModelNew(nn.Module):\n    mark = {mark!r}\n"


def answer(mark: str = "", summary: str = "I fused the two passes.") -> str:
    return f"```python\n{program(mark)}```\n\n{summary}"


def said(text: str, finish_reason: str = "stop", **fields: object) -> Completion:
    return Completion(text=text, finish_reason=finish_reason, model="test", **fields)  # type: ignore[arg-type]


def candidate(mark: str = "") -> Candidate:
    source = program(mark)
    return Candidate(source=source, digest=hashlib.sha256(source.encode()).hexdigest())


def compared(baseline: str, ratio: float, baseline_us: float = 100.0) -> Comparison:
    ours = baseline_us / ratio
    return Comparison(
        baseline=baseline,
        median=ratio,
        low=ratio * 0.98,
        high=ratio * 1.02,
        noise_floor=0.02,
        baseline_timing=Timing(
            median_us=baseline_us, low_us=baseline_us * 0.99, high_us=baseline_us * 1.01, num_samples=50
        ),
        candidate_timing=Timing(median_us=ours, low_us=ours * 0.99, high_us=ours * 1.01, num_samples=50),
    )


def correct(vs_eager: float, vs_compile: float | None = None) -> Verdict:
    """A correct candidate; compile takes 80 µs where eager takes 100 when it was measured."""
    comparisons = [compared("eager", vs_eager)]
    if vs_compile is not None:
        comparisons.append(compared("compile", vs_compile, 80.0))
    return Verdict(outcome=Outcome.CORRECT, detail="correct on 5 seeds", comparisons=tuple(comparisons))


def mismatch() -> Verdict:
    check = OutputCheck(
        index=0,
        passed=False,
        rms_error=0.031,
        reference_rms_error=4e-8,
        max_error=0.5,
        bound=2e-7,
        detail="17 of 1024 elements are wrong, the first at (3, 12)",
    )
    return Verdict(outcome=Outcome.MISMATCH, detail="output 0 is wrong on seed 2", checks=(check,))


def turn(index: int, verdict: Verdict, feedback: str = "feedback", completion: Completion | None = None) -> Turn:
    return Turn(
        index=index,
        completion=completion or said(f"<think>long</think>\n\n{answer(str(index))}"),
        candidate=candidate(str(index)),
        verdict=verdict,
        feedback=feedback,
    )


def trajectory(*turns: Turn, device: DeviceKind = DeviceKind.CUDA) -> Trajectory:
    return Trajectory(task=task(device), index=0, turns=turns)


class MarkedJudge:
    """Answers by the candidate's mark; remembers whom it judged, and how many at once."""

    def __init__(self, verdicts: dict[str, Verdict], finals: dict[str, Verdict] | None = None, delay_s: float = 0.0):
        self._verdicts = {candidate(mark).digest: verdict for mark, verdict in verdicts.items()}
        self._finals = {candidate(mark).digest: verdict for mark, verdict in (finals or {}).items()}
        self._delay_s = delay_s
        self.judged: list[str] = []
        self.judged_again: list[str] = []

    async def judge(
        self, task: Task, candidate: Candidate, *, final: bool = False, watch: StageWatch | None = None
    ) -> Verdict:
        (self.judged_again if final else self.judged).append(candidate.digest)
        if watch:
            watch(Stage.BUILDING)
        await asyncio.sleep(self._delay_s)
        if final and candidate.digest in self._finals:
            return self._finals[candidate.digest]
        return self._verdicts.get(candidate.digest, mismatch())
