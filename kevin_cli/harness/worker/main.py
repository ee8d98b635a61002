"""The program that imports the candidate. It owns nothing that matters and decides nothing.

It waits, warm, until it is given one candidate; constructs it; fills its weights; calls it on input
slots and copies the results to output slots. Everything it sends can be forged by the candidate that
lives in the same process, so the controller takes it for text: faults name the step that failed, for
people and for feedback. The seeds, the reference, the comparison and the clock are elsewhere.

The one broad `except` of the project is here: whatever a candidate raises becomes a FAULT frame.
"""

from __future__ import annotations

import ctypes
import json
import secrets
import signal
import struct
import time
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kevin_cli.harness.build.extension import torch_cpp_extension
from kevin_cli.harness.steady import Places, keep_freed_memory
from kevin_cli.harness.wire import (
    CLOCKED,
    REQUEST_SPIN_S,
    Channel,
    ChannelClosed,
    Frame,
    Kind,
    pack_parameters,
    pack_watched,
)
from kevin_cli.harness.worker import extensions
from kevin_cli.harness.worker.call import Caller, WrongForm
from kevin_cli.harness.worker.extensions import Libraries
from kevin_cli.harness.worker.loading import construct, import_file
from kevin_cli.harness.worker.parameters import copy_weights, list_parameters
from kevin_cli.harness.worker.slots import Opened
from kevin_cli.harness.worker.watch import Overwritten, device_shares, watched_call

PR_SET_PDEATHSIG = 1
FAULT_CAP = 60_000
"""Characters of error text; a frame holds more, a reader does not want more."""


class Session:
    """One candidate from `load` to `quit`; `stage` is the step that a fault is reported under."""

    def __init__(self) -> None:
        self.stage = "internal"
        self._places = Places()
        self._opened: Opened | None = None
        self._module: ModuleType | None = None
        self._libraries: Libraries | None = None
        self._callers: list[Caller] = []

    def open(self, body: dict[str, Any], fds: tuple[int, ...]) -> bytes:
        """Map the arenas. No code of a candidate has run yet: what fails here is a fault of ours.

        The GPU's context is made here and not while warming up, when another worker may be timed on the device.
        """
        if body["device"] == "cuda":
            torch.zeros(16, device="cuda").sum().item()
        self._opened = Opened(body, fds)
        return b""

    def load(self, body: dict[str, Any]) -> bytes:
        """Import and construct the candidate; answers the list of its parameters."""
        self.stage = "import"
        self._libraries = extensions.install(Path(body["build"]))
        self._module = import_file(Path(body["candidate"]))
        return self.construct(body)

    def construct(self, body: dict[str, Any]) -> bytes:
        """One more instance beside those that are there; the first is the one that is timed."""
        assert self._opened is not None
        assert self._module is not None
        self.stage = "construct"
        model = construct(self._module, body)
        entries = pack_parameters(list_parameters(model))
        model = model.to(body["device"]).train(body["training"])
        opened = self._opened
        self._callers.append(Caller(model, opened.arguments, opened.outputs, opened.places, opened.arenas))
        return entries

    def weights(self, pairs: list[tuple[str, str]], instance: int) -> bytes:
        self.stage = "weights"
        assert self._opened is not None
        copy_weights(self._loaded(instance).model, pairs, self._opened.weights)
        return b""

    def run(self, slots: list[int], instance: int, fixes: list[tuple[int, int, str]]) -> bytes:
        """Call once for each slot; answers the nanoseconds that it took by this process's clock."""
        self.stage = "call"
        self._places.settle()
        start = time.perf_counter_ns()
        self._loaded(instance).run(slots, fixes)
        return struct.pack("<Q", time.perf_counter_ns() - start)

    def capture(self, blocks: list[list[int]]) -> bytes:
        """The calls as CUDA graphs, where they can be captured."""
        self.stage = "capture"
        self._loaded().capture(blocks)
        return b""

    def replay(self, block: int) -> bytes:
        self.stage = "call"
        self._loaded().replay(block)
        return b""

    def run_beside(self, slots: list[int], instance: int) -> bytes:
        """The same while another stream than the default one is torch's current stream."""
        self.stage = "side stream"
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            self._loaded(instance).run(slots)
        return b""

    def watch(self, slot: int, instance: int, poison: int, profiled: bool) -> bytes:
        """One call under watch; where it fails only because it is watched, nothing is said about it."""
        self.stage = "watched call"
        caller, libraries = self._loaded(instance), self._libraries
        assert libraries is not None
        call = partial(caller.model, *caller.arguments[slot])
        result, seen = watched_call(call, libraries.modules, poison)
        caller.store(slot, result)
        if profiled:
            own_ns, other_ns, top = device_shares(call, libraries.paths)
            seen = replace(seen, own_ns=own_ns, other_ns=other_ns, top=top or seen.top)
        return pack_watched(seen)

    def _loaded(self, instance: int = 0) -> Caller:
        _forget_seed()
        if instance >= len(self._callers):
            raise RuntimeError("nothing is loaded yet")
        return self._callers[instance]


_SEED, _BITS = torch.manual_seed, secrets.randbits
"""Bound before any candidate is there to replace them."""


def _forget_seed() -> None:
    """Another random state for every request: the construction's is public, and would tell the judge's calls apart."""
    _SEED(_BITS(63))


def _handle(session: Session, frame: Frame) -> tuple[Kind, bytes]:
    body = frame.json()
    if body["op"] == "open":
        return Kind.DONE, session.open(body, frame.fds)
    if body["op"] == "load":
        return Kind.LOADED, session.load(body)
    if body["op"] == "construct":
        return Kind.LOADED, session.construct(body)
    if body["op"] == "weights":
        return Kind.DONE, session.weights(body["map"], body["instance"])
    if body["op"] == "run":
        return Kind.DONE, session.run(body["slots"], body["instance"], body["fixes"])
    if body["op"] == "capture":
        return Kind.DONE, session.capture(body["blocks"])
    if body["op"] == "replay":
        return Kind.DONE, session.replay(body["block"])
    if body["op"] == "run_beside":
        return Kind.DONE, session.run_beside(body["slots"], body["instance"])
    if body["op"] == "watch":
        return Kind.WATCHED, session.watch(body["slot"], body["instance"], body["poison"], body["profiled"])
    raise ValueError(f"unknown request {body['op']!r}")


def _describe(error: BaseException, stage: str) -> bytes:
    """The fault as the feedback will show it: the candidate's own frames, then the error."""
    stage = "shape" if isinstance(error, WrongForm) else "overwritten" if isinstance(error, Overwritten) else stage
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith("candidate.py")]
    lines = [] if stage in ("shape", "overwritten") else traceback.format_list(frames)
    text = "".join([*lines, *traceback.format_exception_only(error)])
    return json.dumps({"stage": stage, "text": text[-FAULT_CAP:]}).encode()


def _serve(session: Session, frame: Frame) -> tuple[Kind, bytes]:
    try:
        answer = _handle(session, frame)
        # An answer means that the work is done; a copy of weights that is still queued is not.
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        return answer
    except BaseException as error:  # noqa: BLE001 - a candidate may raise anything, SystemExit included
        return Kind.FAULT, _describe(error, session.stage)


def _end_with_controller() -> None:
    """The kernel kills this process when its parent dies, so that an endless loop is never left behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _warm_up() -> None:
    """Pay for imports and the first operation before a candidate waits for them."""
    torch_cpp_extension()
    (torch.zeros(16) + 1).sum().item()


def main(fd: int, *, spins: bool = False) -> None:
    """Serve one candidate over the channel `fd` until `quit` or until the controller is gone."""
    channel, session = Channel.from_fd(fd), Session()
    _end_with_controller()
    keep_freed_memory()
    _warm_up()
    channel.send(Kind.READY)
    spin_s = 0.0
    while True:
        try:
            frame = channel.recv(spin_s=spin_s)
            if frame.json()["op"] == "quit":
                return
            spin_s = REQUEST_SPIN_S if spins and frame.json()["op"] in CLOCKED else 0.0
            kind, payload = _serve(session, frame)
            channel.send(kind, payload, sequence=frame.sequence)
        except ChannelClosed:
            return
