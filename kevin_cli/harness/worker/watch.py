"""One call of the candidate under watch: what computes in it, and what it does with memory that it was given.

Outside of every clock, and on a second instance of the candidate where one can be had, so that nothing that it
keeps (a captured graph, a workspace) is kept from here.

- New memory holds a pattern that is not zeros. A kernel that adds to what it never cleared is right by luck only.
- Tensors that torch makes get a margin before and behind them, which must be untouched afterwards. On the CPU
  that goes for those made in Python; what C++ makes there is the heap's own business.
- Operations of torch that compute are counted, and calls of the candidate's own functions; on CUDA the time of
  each device kernel is taken, by torch's profiler, and put down to the candidate when its libraries name it.

Not promised: that any of it is true. A candidate can forge all of this in its own process, and gains by it that
it seems to follow the rules; its outputs and its time are not judged by what is said here.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kevin_cli.types import Watched

MARGIN_BYTES = 512
M_PERTURB = -6
UNFILLED_WORDS = "empty empty_like empty_strided new_empty new_empty_strided"
FILLED_WORDS = "zeros zeros_like new_zeros ones ones_like new_ones full full_like new_full"
MOVING_WORDS = """
    scalar_tensor arange fill_ zero_ copy_ _to_copy clone detach alias lift_fresh set_ resize_ _unsafe_view
    _reshape_alias contiguous _local_scalar_dense is_pinned _pin_memory record_stream
"""
UNFILLED = frozenset(UNFILLED_WORDS.split())
FACTORIES = UNFILLED | frozenset(FILLED_WORDS.split())
MOVING = FACTORIES | frozenset(MOVING_WORDS.split())
"""Operations of ATen that only make, move or name memory."""
PLAIN_NAMES = ("Memcpy", "Memset")


class Overwritten(Exception):  # noqa: N818
    """The candidate wrote beside a tensor of its own."""


class Allocations(TorchDispatchMode):  # type: ignore[misc]
    """Counts operations, fills new memory and puts margins around it."""

    def __init__(self, poison: int) -> None:
        super().__init__()
        self.computing: Counter[str] = Counter()
        self.num_own = 0
        self._poison = poison
        self._guarded: list[tuple[torch.Tensor, int, int]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch wraps a mode's method for its compiler, and imports all of that (seconds) at the first operation."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        if func.namespace not in ("aten", "prim", "prims", "profiler"):
            self.num_own += 1
        elif not func.is_view and name not in MOVING:
            self.computing[name] += 1
        if name in FACTORIES and type(result) is torch.Tensor:
            return self._guard(result, filled=name not in UNFILLED)
        return result

    def _guard(self, made: torch.Tensor, *, filled: bool) -> torch.Tensor:
        """The same tensor inside of a larger piece of memory."""
        num_bytes = made.untyped_storage().nbytes()
        if made.layout is not torch.strided or num_bytes == 0 or made.storage_offset() or made.is_quantized:
            return made
        size = -(-num_bytes // MARGIN_BYTES) * MARGIN_BYTES + 2 * MARGIN_BYTES
        memory = torch.full((size,), self._poison, dtype=torch.uint8, device=made.device)
        inside = memory[MARGIN_BYTES : MARGIN_BYTES + num_bytes].view(made.dtype)
        if filled:
            inside.copy_(made.as_strided(inside.shape, (1,)))
        self._guarded.append((memory, MARGIN_BYTES, MARGIN_BYTES + num_bytes))
        return inside.as_strided(made.shape, made.stride())

    def check(self) -> None:
        """Raises `Overwritten` when a margin has changed."""
        for memory, start, stop in self._guarded:
            for where, margin in (("before", memory[:start]), ("behind", memory[stop:])):
                if not bool((margin == self._poison).all()):
                    raise Overwritten(f"memory {where} a tensor of {stop - start} bytes was overwritten")


class OwnCalls:
    """Counts calls of functions that the candidate's libraries define."""

    def __init__(self, modules: Sequence[ModuleType]) -> None:
        functions = (value for module in modules for value in vars(module).values())
        self._own = {id(value) for value in functions if callable(value)}
        owners = [getattr(value, "__self__", None) for module in modules for value in vars(module).values()]
        self._owners = {id(owner) for owner in owners if owner is not None and owner is not builtins}
        self.num_calls = 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        if event == "c_call" and (id(argument) in self._own or self._is_own(getattr(argument, "__self__", None))):
            self.num_calls += 1

    def _is_own(self, owner: Any) -> bool:
        """An extension's module or what it keeps for a function; or a launcher that Triton made."""
        return id(owner) in self._owners or getattr(owner, "__name__", "").startswith("__triton_launcher")


@contextlib.contextmanager
def watching(poison: int, own: OwnCalls) -> Iterator[Allocations]:
    """Everything that is watched without a device's profiler."""
    allocations, before = Allocations(poison), sys.getprofile()
    with _dirty_heap(poison), allocations:
        sys.setprofile(own)
        try:
            yield allocations
        finally:
            sys.setprofile(before)


@contextlib.contextmanager
def _dirty_heap(poison: int) -> Iterator[None]:
    """glibc fills what it hands out, and what it takes back; elsewhere nothing happens."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        yield
        return
    mallopt(M_PERTURB, poison ^ 0xFF)
    try:
        yield
    finally:
        mallopt(M_PERTURB, 0)


def watched_call(call: Callable[[], Any], modules: Sequence[ModuleType], poison: int) -> tuple[Any, Watched]:
    """The result of one call, and what it did. Raises what the call raises, and `Overwritten`."""
    own = OwnCalls(modules)
    with watching(poison, own) as seen, torch.no_grad():
        result = call()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
    seen.check()
    top = tuple(f"{name} {count}" for name, count in seen.computing.most_common(3))
    num_own = own.num_calls + seen.num_own
    return result, Watched(num_own=num_own, num_torch=seen.computing.total(), own_ns=0, other_ns=0, top=top)


def device_shares(call: Callable[[], Any], libraries: Sequence[Path]) -> tuple[int, int, tuple[str, ...]]:
    """(own, others, the longest others): nanoseconds of device time in one call, by torch's profiler.

    Copies and fills by the driver are nobody's. Raises what the call raises.
    """
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with torch.no_grad(), profile(activities=[ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    kernels: Counter[str] = Counter()
    for event in profiler.events() or ():
        if event.device_type == DeviceType.CUDA and not event.name.startswith(PLAIN_NAMES):
            kernels[event.name] += max(1, round(1000 * event.time_range.elapsed_us()))
    texts = [library.read_bytes() for library in libraries]
    own = Counter({name: ns for name, ns in kernels.items() if is_own_kernel(name, texts)})
    others = kernels - own
    top = tuple(f"{name[:60]} {ns / 1e3:.1f} µs" for name, ns in others.most_common(3))
    return own.total(), others.total(), top


def is_own_kernel(name: str, texts: Sequence[bytes]) -> bool:
    """Whether a library registers a kernel of that (demangled) name: its identifier stands in the library.

    torch's own kernels are in a namespace of torch's, and a library that was built against torch's headers may
    hold some of them; they stay torch's.
    """
    plain = re.sub(r"\(anonymous namespace\)::", "", name).removeprefix("void ")
    head = re.split(r"[<(]", plain, maxsplit=1)[0].strip()
    if head.startswith(("at::", "at_cuda_detail::", "c10::", "cub::", "thrust::")):
        return False
    identifier = head.rsplit("::", 1)[-1].split(" ")[-1]
    return bool(identifier) and any(identifier.encode() in text for text in texts)
