"""What a candidate is compared with: eager and `torch.compile`, run on the same slots in the same way.

Inputs are views in the arena that the candidate reads too; outputs are copied inside the clocked window,
as the worker does, into a buffer of the same layout and kind of memory that nobody else maps. `copy` makes
the copies only and `none` does nothing: what they take is taken off both sides.

`compile` is torch.compile as it is, `reduce-overhead` the same in CUDA graphs, `max-autotune` the same with
more kernels tried; the last one without graphs, which would copy every input first. A name that ends in one
of `TF32_SUFFIXES` is the same with the other setting of TF32 than the user's file has.

Not promised: that compiling succeeds, or ends in time. A baseline that cannot be had is named with the reason.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch

from kevin_cli.harness.arena import Fixes, create_arena
from kevin_cli.harness.captured import capture, replay
from kevin_cli.harness.reference.faults import TaskFault, user_code
from kevin_cli.harness.reference.precision import tf32, tf32_of_convolutions, tf32_of_products
from kevin_cli.harness.reference.slots import Slots
from kevin_cli.harness.reference.subject import Subject, synchronize
from kevin_cli.harness.reference.trees import assemble, flatten

WARM_CALLS = 4
"""CUDA graphs of torch's own run twice before they replay."""
MODES = {"compile": None, "reduce-overhead": "reduce-overhead", "max-autotune": "max-autotune-no-cudagraphs"}
TF32_SUFFIXES = {" with TF32": True, " without TF32": False}
Call = Callable[..., Any]


class Baselines:
    """Ready to run on any slots."""

    def __init__(self, subject: Subject, slots: Slots) -> None:
        self._subject = subject
        self._calls: dict[str, Call] = {"eager": subject.by_position(subject.module)}
        self._graphs: dict[str, list[torch.cuda.CUDAGraph]] = {}
        self._inputs = slots.inputs.arena
        self._arguments = [assemble(subject.input_tree, slots.inputs.views(slot)) for slot in range(slots.num_slots)]
        private = create_arena(slots.outputs.arena.num_bytes, str(subject.device))
        private.close_fd()
        self._places = [slots.outputs.views(slot, private) for slot in range(slots.num_slots)]
        self._sources = [torch.zeros_like(place) for place in self._places[0]]

    def prepare(self, names: Sequence[str], limit_s: float) -> list[list[str]]:
        """Compile, each within the limit; returns what is missing as [name, why]. Known ones stay as they are."""
        missing = []
        for name in names:
            if name in self._calls and name != "eager":
                continue
            try:
                call = self._made(name)
                self._warm(name, call, limit_s)
                self._calls[name] = call
            except TaskFault as fault:
                missing.append([name, fault.message])
        return missing

    @property
    def available(self) -> list[str]:
        return list(self._calls)

    def run(self, name: str, slots: Sequence[int], fixes: Sequence[tuple[int, int, str]] = ()) -> None:
        """Call once for each slot, in order; `copy` and `none` are the stubs."""
        if name == "none":
            return
        with torch.no_grad(), _setting(name):
            self._run(name, slots, Fixes(self._inputs, fixes))
        synchronize(self._subject.device)

    def capture(self, name: str, blocks: Sequence[Sequence[int]]) -> None:
        """The same calls as CUDA graphs, one for each block. Raises `TaskFault` when they can't be captured."""
        with user_code("the calls in a CUDA graph", self._subject.path, where="reference"), _setting(name):
            self._graphs[name] = capture(lambda slots: self._run(name, slots), blocks)

    def replay(self, name: str, block: int) -> None:
        replay(self._graphs[name][block])

    def _run(self, name: str, slots: Sequence[int], late: Fixes | None = None) -> None:
        for slot in slots:
            if late is not None:
                late.apply(slot)
            sources = self._sources if name == "copy" else self._outputs(self._calls[name], slot)
            for place, source in zip(self._places[slot], sources, strict=True):
                place.copy_(source)

    def _outputs(self, call: Call, slot: int) -> list[torch.Tensor]:
        return flatten(self._subject.output_tree, call(*self._arguments[slot]))

    def _made(self, name: str) -> Call:
        """A new call, except of eager; nothing is compiled before the first use."""
        kind = _without_setting(name)
        module = self._subject.module
        return self._subject.by_position(module if kind == "eager" else torch.compile(module, mode=MODES[kind]))

    def _warm(self, name: str, call: Call, limit_s: float) -> None:
        what = "torch.compile" if _without_setting(name) in MODES else name
        guarded = user_code(what, self._subject.path, where="reference")
        with time_limit(limit_s), guarded, torch.no_grad(), _setting(name):
            for number in range(WARM_CALLS):
                call(*self._arguments[number % len(self._arguments)])
            synchronize(self._subject.device)


def other_tf32(*, products: bool, convolutions: bool) -> list[str]:
    """The suffixes of settings that would change what the user's file has, for the kinds that the task computes."""
    now = [tf32_of_products()] * products + [tf32_of_convolutions()] * convolutions
    return [suffix for suffix, on in TF32_SUFFIXES.items() if any(setting is not on for setting in now)]


def _without_setting(name: str) -> str:
    for suffix in TF32_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


@contextlib.contextmanager
def _setting(name: str) -> Iterator[None]:
    """TF32 as the name says, or as it is."""
    wanted = next((on for suffix, on in TF32_SUFFIXES.items() if name.endswith(suffix)), None)
    with contextlib.nullcontext() if wanted is None else tf32(on=wanted):
        yield


@contextlib.contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raises `TaskFault` when it is not over in time: a signal interrupts whatever Python does meanwhile."""

    late = TaskFault(f"not ready within {limit_s:.0f} s", where="reference")

    def ring(signum: int, frame: FrameType | None) -> None:
        raise late

    before, start = signal.signal(signal.SIGALRM, ring), time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    except TaskFault as fault:
        if time.monotonic() - start < limit_s:
            raise
        raise late from fault
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
