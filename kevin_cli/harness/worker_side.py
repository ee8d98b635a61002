"""A worker process as the controller sees it, and the one that waits so that no candidate has to.

Whatever a worker does wrong after it was given a candidate is the candidate's fault, in the words of
the outcomes; before that it is ours. A worker serves one candidate and is killed afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import struct
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kevin_cli.errors import InfraError
from kevin_cli.harness.faults import CandidateFault, last_line
from kevin_cli.harness.program import Launch, Program, Reply, may_spin
from kevin_cli.harness.reference_side import Arenas
from kevin_cli.harness.sandbox import Sandbox
from kevin_cli.harness.steady import steady_environment
from kevin_cli.harness.wire import (
    ChannelClosed,
    DeadlineExceeded,
    Kind,
    ParameterEntry,
    ProtocolError,
    unpack_parameters,
    unpack_watched,
)
from kevin_cli.types import DeviceKind, Isolation, Outcome, Task, Watched

U64 = struct.Struct("<Q")

READY_TIMEOUT_S = 120.0
OPEN_TIMEOUT_S = 60.0
BROKEN = (ChannelClosed, DeadlineExceeded, ProtocolError)
STEPS = {
    "load": "while it was imported",
    "construct": "while it was constructed a second time",
    "weights": "while its weights were set",
    "run": "in a call",
    "run_beside": "in a call on a side stream",
    "watch": "in a watched call",
    "capture": "while its calls were captured in a CUDA graph",
    "replay": "in a CUDA graph",
}
OUTCOMES = {"shape": Outcome.MISMATCH, "overwritten": Outcome.MISMATCH}
"""Every other stage that a worker names is a crash; a worker cannot call anything our fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What workers are started in."""

    python: str
    device: DeviceKind
    sandbox: Sandbox
    scratch: Path


@dataclass(frozen=True, slots=True)
class Reported:
    """One request's time by the worker's own clock and by ours."""

    reported_ns: int
    elapsed_ns: int
    num_calls: int


class Raised(CandidateFault):
    """The candidate raised, and its process says where: `stage` is that process's word for it."""

    def __init__(self, stage: str, text: str) -> None:
        super().__init__(OUTCOMES.get(stage, Outcome.CRASHED), last_line(text), text)
        self.stage = stage


class WorkerSide:
    """One worker: started, warm, then given one candidate."""

    def __init__(self, program: Program, inbox: Path, call_timeout_s: float) -> None:
        self._program = program
        self._inbox = inbox
        self._call_timeout_s = call_timeout_s
        self._construction: dict[str, Any] = {}
        self.reported: list[Reported] = []
        """What the worker says about the time of each request; self-reported."""

    @classmethod
    async def start(cls, around: Surroundings, call_timeout_s: float) -> WorkerSide:
        """Start one and wait until it is warm. Raises `InfraError`."""
        home = Path(tempfile.mkdtemp(prefix="worker-", dir=around.scratch))
        inbox = home / "inbox"
        inbox.mkdir()
        program = await Program.start(_launch(around, home, inbox))
        worker = cls(program, inbox, call_timeout_s)
        try:
            await program.ready(timeout_s=READY_TIMEOUT_S)
        except asyncio.CancelledError:
            await worker.stop()
            raise
        except BROKEN as error:
            await worker.stop()
            raise InfraError(f"a worker did not start: {last_line(await program.printed())}") from error
        return worker

    async def stop(self) -> None:
        """Kill it and remove what it was given."""
        await self._program.stop()
        shutil.rmtree(self._inbox.parent, ignore_errors=True)

    async def open(self, task: Task, arenas: Arenas) -> None:
        """Map the arenas. Nothing of a candidate is there yet, so a failure is ours: `InfraError`."""
        body = {
            "op": "open",
            "device": task.contract.device.value,
            "layout": arenas.layout,
            "inputs": asdict(task.inputs),
            "input_specs": [asdict(spec) for spec in task.contract.inputs],
            "outputs": asdict(task.outputs),
            "output_specs": [asdict(spec) for spec in task.output_specs],
            "weight_specs": {spec.name: {"shape": spec.shape, "dtype": spec.dtype} for spec in task.parameters},
        }
        try:
            reply = await self._program.ask(body, timeout_s=OPEN_TIMEOUT_S, fds=arenas.fds)
        except BROKEN as error:
            await self._program.stop()
            raise InfraError(f"a worker died before it had a candidate: {await self._program.printed()}") from error
        if reply.frame.kind is not Kind.DONE:
            raise InfraError(f"a worker cannot map the arenas: {_fault_text(reply)[1]}")

    async def load(self, task: Task, built: Path) -> tuple[ParameterEntry, ...]:
        """Give it the candidate: a folder with `candidate.py` and its libraries. Answers its parameters.

        Raises `InfraError` when it cannot be given, `CandidateFault` for what it does then.
        """
        try:
            for path in built.iterdir():
                await asyncio.to_thread(shutil.copyfile, path, self._inbox / path.name)
        except OSError as error:
            raise InfraError(f"a candidate cannot be handed over: {error}", "make room on the disk") from error
        self._construction = {
            "device": task.contract.device.value,
            "init": asdict(task.init),
            "init_keywords": asdict(task.init_keywords),
            "training": task.training,
        }
        inbox = {"candidate": str(self._inbox / "candidate.py"), "build": str(self._inbox)}
        return await self._parameters({"op": "load", **inbox, **self._construction})

    async def construct(self) -> None:
        """One more instance of the candidate that is loaded; its parameters are those of the first."""
        await self._parameters({"op": "construct", **self._construction})

    async def _parameters(self, body: Mapping[str, Any]) -> tuple[ParameterEntry, ...]:
        reply = await self._ask(body, Kind.LOADED)
        try:
            return unpack_parameters(reply.frame.payload)
        except ProtocolError as error:
            raise CandidateFault(Outcome.TAMPERED, str(error)) from error

    async def weights(self, pairs: Sequence[tuple[str, str]], *, instance: int = 0) -> None:
        await self._ask({"op": "weights", "map": [list(pair) for pair in pairs], "instance": instance}, Kind.DONE)

    async def run(self, slots: Sequence[int], *, instance: int = 0, fixes: Sequence[Any] = ()) -> int:
        """Call it once for each slot; nanoseconds on our clock.

        `fixes`: values that belong to the inputs from the call on (`ReferenceSide.fixes`).
        """
        reply = await self._ask(
            {"op": "run", "slots": list(slots), "instance": instance, "fixes": list(fixes)}, Kind.DONE
        )
        self.reported.append(Reported(reported_ns(reply), reply.elapsed_ns, len(slots)))
        return reply.elapsed_ns

    async def run_beside(self, slots: Sequence[int], *, instance: int = 0) -> None:
        """Call it while torch's current stream is not the default one (CUDA)."""
        await self._ask({"op": "run_beside", "slots": list(slots), "instance": instance}, Kind.DONE)

    async def watch(self, slot: int, *, instance: int, poison: int, profiled: bool) -> Watched:
        """One call under watch: what it did. Raises `Raised` when it fails there."""
        body = {"op": "watch", "slot": slot, "instance": instance, "poison": poison, "profiled": profiled}
        reply = await self._ask(body, Kind.WATCHED)
        try:
            return unpack_watched(reply.frame.payload)
        except ProtocolError as error:
            raise CandidateFault(Outcome.TAMPERED, str(error)) from error

    def freeze(self) -> None:
        """Nothing of it computes until `thaw`: not while others are timed, nor ahead of its own calls."""
        self._program.freeze()

    async def thaw(self) -> None:
        """Let it go on, and wait until it does: waking up is not to fall into its time."""
        self._program.thaw()
        await self._ask({"op": "run", "slots": [], "instance": 0, "fixes": []}, Kind.DONE)

    @property
    def is_running(self) -> bool:
        return self._program.is_running

    def memory_bytes(self) -> int:
        """What the worker's processes hold of their own, by the kernel's count; 0 when they are gone."""
        return self._program.private_bytes()

    async def capture(self, blocks: Sequence[Sequence[int]]) -> None:
        """Its calls as CUDA graphs. Raises `CandidateFault` when they can't be captured, which is no fault of a
        kernel that is right otherwise."""
        await self._ask({"op": "capture", "blocks": [list(slots) for slots in blocks]}, Kind.DONE)

    async def replay(self, block: int) -> int:
        """The captured calls of one block; nanoseconds on our clock."""
        return (await self._ask({"op": "replay", "block": block}, Kind.DONE)).elapsed_ns

    async def _ask(self, body: Mapping[str, Any], expected: Kind) -> Reply:
        """Raises `CandidateFault` for everything that is not the expected answer."""
        step = STEPS[body["op"]]
        try:
            reply = await self._program.ask(body, timeout_s=self._call_timeout_s)
            if reply.frame.fds:
                raise ProtocolError("descriptors came with an answer")
            if reply.frame.kind is Kind.FAULT:
                raise Raised(*_fault_text(reply))
            if reply.frame.kind is not expected:
                raise ProtocolError(f"{reply.frame.kind.name} instead of {expected.name}")
        except DeadlineExceeded as error:
            await self._program.stop()
            raise CandidateFault(
                Outcome.TIMED_OUT, f"the candidate did not finish within {self._call_timeout_s:g} s, {step}"
            ) from error
        except ProtocolError as error:
            await self._program.stop()
            raise CandidateFault(Outcome.TAMPERED, f"the candidate wrote to the judge's channel: {error}") from error
        except ChannelClosed as error:
            ending = await self._program.ending()
            printed = await self._program.printed()
            raise CandidateFault(Outcome.CRASHED, f"the candidate's process {ending}, {step}", printed) from error
        return reply


def _launch(around: Surroundings, home: Path, inbox: Path) -> Launch:
    on_gpu = around.device is DeviceKind.CUDA
    env = steady_environment(around.sandbox.environment(home, gpu=on_gpu), bound=not on_gpu)
    if around.device is DeviceKind.CPU:
        env["CUDA_VISIBLE_DEVICES"] = ""
    # Inside bubblewrap a private /tmp is the home; elsewhere it has to be a folder of its own.
    own = () if around.sandbox.level is Isolation.BUBBLEWRAP else (home,)
    wrap = around.sandbox.wrap(readable=[inbox], writable=own, gpu=on_gpu)
    return Launch(program="worker", python=around.python, env=env, cwd=home, wrap=wrap, spins=may_spin(around.device))


def _fault_text(reply: Reply) -> tuple[str, str]:
    """(stage, text) of a FAULT; its form is a part of the protocol."""
    body = reply.frame.json()
    if not isinstance(body, dict) or not all(isinstance(body.get(key), str) for key in ("stage", "text")):
        raise ProtocolError("a fault without stage and text")
    return body["stage"], body["text"]


def reported_ns(reply: Reply) -> int:
    """The time that a worker says it took. Raises `CandidateFault` when that is longer than it did."""
    try:
        (reported,) = U64.unpack(reply.frame.payload)
    except struct.error as error:
        raise CandidateFault(Outcome.TAMPERED, "the candidate's process reports no time") from error
    if reported > reply.elapsed_ns:
        raise CandidateFault(Outcome.TAMPERED, "the candidate's process reports more time than has passed")
    return int(reported)


class Spare:
    """A warm worker is always waiting, so that `import torch` and a GPU context cost no candidate any time.

    Several where candidates take less time than a worker's start and there are cores for them.
    """

    def __init__(self, around: Surroundings, call_timeout_s: float, number: int = 1) -> None:
        self._around = around
        self._call_timeout_s = call_timeout_s
        self._number = number
        self._waiting: deque[asyncio.Task[WorkerSide]] = deque()

    def prepare(self) -> None:
        """Start in the background what is missing."""
        while len(self._waiting) < self._number:
            self._start()

    def _start(self) -> None:
        self._waiting.append(asyncio.create_task(WorkerSide.start(self._around, self._call_timeout_s)))

    async def take(self) -> WorkerSide:
        """The one that has waited longest; the caller stops it. Raises `InfraError` when workers do not start."""
        if not self._waiting:
            self._start()
        return await self._waiting.popleft()

    async def wait(self) -> None:
        """Until those that are being started are warm, so that their start disturbs no measurement."""
        if self._waiting:
            await asyncio.wait(self._waiting)

    async def close(self) -> None:
        """End those that wait."""
        while self._waiting:
            waiting = self._waiting.popleft()
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError, InfraError):
                await (await waiting).stop()
