"""Values as the judge and the loop would hand them over, with round numbers that a reader can follow."""

from __future__ import annotations

import hashlib
import io
from dataclasses import replace

from rich.console import Console

from kevin_cli.types import (
    BuildReport,
    Candidate,
    Comparison,
    Completion,
    Contract,
    DeviceKind,
    Domain,
    Isolation,
    Outcome,
    Target,
    Task,
    TaskReport,
    TensorSpec,
    Timing,
    Trajectory,
    Tree,
    Turn,
    Verdict,
)

SPEC = TensorSpec(shape=(64, 4096), dtype="float32", strides=(4096, 1), domain=Domain(kind="real", low=-4.0, high=4.0))
TENSOR = Tree(kind="tensor", index=0)
TASK = Task(
    name="rms_norm",
    digest="0" * 64,
    target=Target(path="/home/me/rms_norm.py", class_name="RMSNorm", python="/usr/bin/python3"),
    source="class RMSNorm: ...",
    init=Tree(kind="tuple"),
    init_keywords=Tree(kind="dict"),
    inputs=Tree(kind="tuple", items=(TENSOR,)),
    outputs=TENSOR,
    output_specs=(SPEC,),
    parameters=(),
    contract=Contract(device=DeviceKind.CPU, inputs=(SPEC,)),
    graph=None,
)


def timing(median_us: float) -> Timing:
    return Timing(median_us=median_us, low_us=median_us * 0.98, high_us=median_us * 1.03, num_samples=200)


REPORT = TaskReport(
    baselines=(("eager", timing(412.0)), ("compile", timing(150.0))),
    noise_floor=0.02,
    isolation=Isolation.PROCESS,
    isolation_note="bubblewrap is not installed",
    device_name="a CPU (2 cores)",
    versions=(("torch", "2.13.0"),),
)


def comparison(baseline: str, median: float, half: float = 0.04) -> Comparison:
    was = dict(REPORT.baselines)[baseline]
    return Comparison(
        baseline=baseline,
        median=median,
        low=median - half,
        high=median + half / 2,
        noise_floor=0.02,
        baseline_timing=was,
        candidate_timing=timing(was.median_us / median),
    )


def correct(vs_eager: float, vs_compile: float) -> Verdict:
    return Verdict(
        outcome=Outcome.CORRECT,
        detail="correct in every round",
        comparisons=(comparison("eager", vs_eager), comparison("compile", vs_compile)),
        seeds=(1, 2, 3, 4, 5),
        build=BuildReport(way="thin", wall_s=2.1, num_libraries=1, cached=False),
        reference_precision="float64",
    )


FAILED = Verdict(
    outcome=Outcome.BUILD_FAILED,
    detail="line 7: expected ';' before 'return'",
    log="kernel.cpp:7:3: error: expected ';' before 'return'\n    7 |   return y;\n      |   ^~~~~~",
    build=BuildReport(way="thin", wall_s=1.2, num_libraries=0, cached=False),
)
MISMATCH = Verdict(outcome=Outcome.MISMATCH, detail="output 0: RMS error 3.1e-02, allowed 4.0e-07")


def program(block: int) -> Candidate:
    source = f"import torch\n\nBLOCK = {block}\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
    return Candidate(source=source, digest=hashlib.sha256(source.encode()).hexdigest())


def turn(index: int, verdict: Verdict, block: int = 64) -> Turn:
    completion = Completion(text="…", finish_reason="stop", model="embedded")
    return Turn(index=index, completion=completion, candidate=program(block), verdict=verdict, feedback="")


NO_CODE = replace(turn(3, Verdict(outcome=Outcome.NO_CODE, detail="the answer holds no program")), candidate=None)
TRAJECTORY = Trajectory(
    task=TASK,
    index=0,
    turns=(turn(0, FAILED, 64), turn(1, correct(1.83, 0.67), 128), turn(2, MISMATCH, 256), NO_CODE),
)


def as_text(thing: object) -> str:
    console = plain_console()
    console.print(thing, highlight=False)
    return "".join(line.rstrip() + "\n" for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


def plain_console() -> Console:
    return Console(file=io.StringIO(), width=80, color_system=None, force_terminal=False)
