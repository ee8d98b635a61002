"""A candidate under a stand-in for compute-sanitizer: the real programs run, what it finds is recorded.

The stand-in runs what it is given, as the tool does, and prints what the tool prints.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from started import Started

from kevin_cli import tasks
from kevin_cli.errors import MachineError
from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
from kevin_cli.harness.sanitized import Sanitizer, Subject, try_out
from kevin_cli.types import Isolation, Outcome, SanitizerCheck, Target

MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.gain = nn.Parameter(torch.full((size,), 3.0))

    def forward(self, x):
        return x * self.gain


def get_inputs():
    return [torch.randn(6, 8).t()[::2]]


def get_init_inputs():
    return [6]
"""
CANDIDATE = """
import torch
from torch import nn

KERNEL = "__global__ void scale_rows(const float* x) {}"


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size))

    def forward(self, x):
        assert x.shape == (4, 6) and x.stride() == (2, 8), (x.shape, x.stride())
        assert bool((self.weight == 3.0).all()), "the weights are the module's"
        return x * self.weight
"""
STAND_IN = """#!{python}
import os, socket, subprocess, sys
arguments = sys.argv[1:]
tool = arguments[arguments.index("--tool") + 1]
server = socket.create_server(("127.0.0.1", 0))
with socket.create_connection(server.getsockname()):
    print("========= COMPUTE-SANITIZER", flush=True)
code = subprocess.run(arguments[arguments.index("--") + 1:]).returncode
if tool == {broken!r}:
    print("========= Error: No attachable process found. compute-sanitizer timed-out.")
    sys.exit(1)
if tool == {finds!r}:
    print("========= Invalid __global__ read of size 4 bytes")
    print("=========     at scale_rows(const float *)+0x70")
    print("=========     by thread (97,0,0) in block (0,0,0)")
print("========= ERROR SUMMARY: 0 errors")
"""


class Reference:
    """The reference program as the controller's side has it."""

    def __init__(self, program: Started) -> None:
        self._program = program

    async def export(self, folder: Path, seed: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._program.ask("export", folder=str(folder), seed=seed)["weights"]
        return found


def stand_in(folder: Path, *, finds: str = "", broken: str = "") -> Path:
    tool = folder / "toolkit" / "bin" / "compute-sanitizer"
    tool.parent.mkdir(parents=True, exist_ok=True)
    tool.write_text(STAND_IN.format(python=sys.executable, finds=finds, broken=broken))
    tool.chmod(0o755)
    return tool


def checked(
    program: Started, tmp_path: Path, *, candidate: str = CANDIDATE, finds: str = "", broken: str = ""
) -> tuple[SanitizerCheck, ...]:
    sandbox = Sandbox.find()
    if sandbox.level is not Isolation.BUBBLEWRAP:
        pytest.skip(f"no bubblewrap here: {sandbox.note}")
    (tmp_path / "model.py").write_text(MODULE)
    build, tool = tmp_path / "build", stand_in(tmp_path, finds=finds, broken=broken)
    for folder in (build, tmp_path / "scratch"):
        folder.mkdir(parents=True, exist_ok=True)
    (build / "candidate.py").write_text(candidate)
    (build / "manifest.json").write_text(json.dumps({"extensions": {}}))
    target = Target(path=str(tmp_path / "model.py"), class_name="Model", python=sys.executable)
    task = tasks.lower(target, program.describe_file(tmp_path / "model.py"))
    program.open()
    contained = sandbox.around(hidden=[tmp_path], readable=interpreter_folders(sys.executable))
    sanitizer = Sanitizer(program=tool, sandbox=contained, scratch=tmp_path / "scratch", timeout_s=120)
    subject = Subject(task=task, source=candidate, build=build, pairs=(("weight", "gain"),))
    found = asyncio.run(sanitizer.check(subject, Reference(program)))  # type: ignore[arg-type]
    assert not list((tmp_path / "scratch").iterdir())
    return found


def test_every_tool_sees_the_module_s_inputs_and_weights_and_finds_nothing(program: Started, tmp_path: Path) -> None:
    found = checked(program, tmp_path)
    assert [(one.tool, one.passed, one.detail) for one in found] == [
        (tool, True, "nothing found") for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
    ]


def test_a_finding_makes_the_candidate_wrong_and_is_in_the_log(program: Started, tmp_path: Path) -> None:
    with pytest.raises(CandidateFault, match=r"racecheck: Invalid .*, at scale_rows") as hit:
        checked(program, tmp_path, finds="racecheck")
    assert hit.value.outcome is Outcome.MISMATCH
    assert "by thread (97,0,0)" in hit.value.log


def test_a_tool_that_cannot_attach_and_a_candidate_that_fails_under_it_prove_nothing(
    program: Started, tmp_path: Path
) -> None:
    found = checked(program, tmp_path, candidate=CANDIDATE.replace("(2, 8)", "(9, 9)"), broken="initcheck")
    assert [one.passed for one in found] == [None] * 4
    assert "did not come to the end of its calls" in found[0].detail
    assert "No attachable process found" in found[2].detail


def test_a_tool_that_cannot_attach_here_is_told_before_anything_is_judged(tmp_path: Path) -> None:
    sandbox = Sandbox.find()
    if sandbox.level is not Isolation.BUBBLEWRAP:
        pytest.skip(f"no bubblewrap here: {sandbox.note}")
    try_out(stand_in(tmp_path), sandbox, sys.executable)
    with pytest.raises(MachineError, match="can't check programs here: Error: No attachable process found"):
        try_out(stand_in(tmp_path, broken="memcheck"), sandbox, sys.executable)
