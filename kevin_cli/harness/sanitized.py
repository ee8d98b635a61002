"""One candidate under each of compute-sanitizer's tools, in processes of their own.

The candidate is contained as in every other run. A finding in one of its own kernels makes it wrong, whatever its
outputs were; a tool that can't be run here, or not in time, says so and proves nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from kevin_cli.errors import MachineError
from kevin_cli.harness.faults import CandidateFault
from kevin_cli.harness.process import Finished, run_to_end
from kevin_cli.harness.program import LAUNCH
from kevin_cli.harness.reference_side import ReferenceSide
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
from kevin_cli.harness.sanitizer import HINT, NAME, RAN, TOOLS, Told, command, parse, shown
from kevin_cli.harness.verify import secret_seed
from kevin_cli.harness.weights import Pairs
from kevin_cli.types import Outcome, SanitizerCheck, Task

NUM_CALLS = 2
TOOL_TIMEOUT_S = 180.0
"""Checked calls are ten to a hundred times slower, and torch's import is watched too."""
NOTHING_FOUND = "nothing found"


PROBE = """
import ctypes
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuDevicePrimaryCtxRelease(0)
"""
"""Uses the device and does nothing."""


def try_out(program: Path, sandbox: Sandbox, python: str) -> None:
    """One run over a program that does nothing. Raises `MachineError` where the tool can't follow it: some containers
    and virtual machines hide what it needs."""
    contained = sandbox.around(readable=[*interpreter_folders(python), program.resolve().parent.parent])
    argv = [*contained.wrap(gpu=True, debugged=True), *command(program, TOOLS[0], [python, "-c", PROBE])]
    env = contained.environment(Path("/tmp"), gpu=True)
    try:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise MachineError(f"{NAME} does not come to an end here", HINT) from error
    told = parse(done.stdout + done.stderr)
    if not told.is_whole:
        raise MachineError(f"{NAME} can't check programs here: {told.complaint}", HINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is run: one candidate of a task, built, with its weights mapped."""

    task: Task
    source: str
    build: Path
    pairs: Pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitizer:
    """The program and what candidates are contained by."""

    program: Path
    sandbox: Sandbox
    scratch: Path
    timeout_s: float = TOOL_TIMEOUT_S

    async def check(self, subject: Subject, reference: ReferenceSide) -> tuple[SanitizerCheck, ...]:
        """What each tool says. Raises `CandidateFault` at the first finding in a kernel of the candidate's own."""
        folder = Path(tempfile.mkdtemp(prefix="sanitize-", dir=self.scratch))
        try:
            await _write_request(subject, reference, folder)
            return tuple([await self._run(tool, subject, folder) for tool in TOOLS])
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _run(self, tool: str, subject: Subject, folder: Path) -> SanitizerCheck:
        argv = command(self.program, tool, [subject.task.target.python, "-u", str(LAUNCH), "alone", str(folder)])
        toolkit = self.program.resolve().parent.parent
        wrap = self.sandbox.wrap(readable=[folder, subject.build, toolkit], gpu=True, debugged=True)
        env = {**self.sandbox.environment(folder, gpu=True), "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        finished = await run_to_end([*wrap, *argv], cwd=folder, env=env, timeout_s=self.timeout_s)
        told = parse(finished.output)
        if found := told.of(subject.source):
            log = "\n\n".join(shown(tool, one) for one in found[:3])
            raise CandidateFault(Outcome.MISMATCH, f"{NAME} {tool}: {found[0].text}", log)
        passed, detail = _conclusion(told, finished, self.timeout_s)
        return SanitizerCheck(tool=tool, passed=passed, detail=detail)


def _conclusion(told: Told, finished: Finished, timeout_s: float) -> tuple[bool | None, str]:
    """Whether a run without a finding that is the candidate's passed, and the words for it."""
    if finished.timed_out:
        return None, f"not finished within {timeout_s:g} s"
    if not told.is_whole:
        return None, f"it could not be run: {told.complaint}"
    if not told.has_run:
        return None, "the candidate did not come to the end of its calls under it"
    others = f"; {len(told.findings)} findings outside of its own kernels, or warnings" if told.findings else ""
    return True, NOTHING_FOUND + others


async def _write_request(subject: Subject, reference: ReferenceSide, folder: Path) -> None:
    """The reference writes inputs and weights, we write what to do with them."""
    task = subject.task
    weights = await reference.export(folder, secret_seed())
    request = {
        "device": task.contract.device.value,
        "build": str(subject.build),
        "init": asdict(task.init),
        "init_keywords": asdict(task.init_keywords),
        "training": task.training,
        "inputs": asdict(task.inputs),
        "input_specs": [asdict(spec) for spec in task.contract.inputs],
        "weights": weights,
        "map": [list(pair) for pair in subject.pairs],
        "num_calls": NUM_CALLS,
        "last_words": RAN,
    }
    (folder / "request.json").write_text(json.dumps(request))
