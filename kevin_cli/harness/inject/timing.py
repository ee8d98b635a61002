"""Where a run's time goes, module by module: inclusive time of every call, and how much of it was in modules inside.

On a CPU the clock is read around the call; on CUDA, events are recorded on the current stream and read later,
so that nothing waits. Such a time includes what the stream idled between the first and the last kernel of the
call: it is what a faster kernel can win, but not the work of the GPU alone. The first call of an outermost module
is left out when there are more. Only `forward` is seen: not backward, not the optimizer.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import threading
import time
import types
import weakref
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Call = Any
WRITE_EVERY_S = 1.0
MAX_PENDING = 4096
"""Pairs of events that wait to be read."""
NUM_EMPTY_CALLS = 300
FAULTS = (RuntimeError, ValueError, TypeError, AttributeError, OSError, MemoryError)


@dataclass(slots=True)
class Spot:
    """A module at its place in an outermost module, over all its calls. Times in seconds, sizes in bytes, summed."""

    root: str
    path: str
    about: Json
    num_calls: int = 0
    inclusive_s: float = 0.0
    inside_s: float = 0.0
    """Of modules that it called itself."""
    bytes_in: int = 0
    bytes_out: int = 0
    flops: int = 0
    """Of matrix products and convolutions inside, as their layers' shapes say."""
    precision: str = ""


@dataclass(slots=True)
class Open:
    """A call that is going on."""

    spot: Spot
    start: Any
    flops: int = 0
    names: dict[int, str] = field(default_factory=dict)


class Timing:
    """A watcher (`hook.Watcher`). `plan`: folder."""

    def __init__(self, plan: Json) -> None:
        self._folder = Path(plan["folder"])
        self._fault = ""
        self._spots: dict[tuple[bool, str, str, type], Spot] = {}
        self._names: weakref.WeakKeyDictionary[Any, dict[int, str]] = weakref.WeakKeyDictionary()
        self._local = threading.local()
        self._pending: list[tuple[Spot, Spot | None, Any, Any]] = []
        self._lock = threading.Lock()
        self._first_s = self._last_s = self._written_s = self._empty_call_s = 0.0
        self._num_outermost = self._num_with_gradients = 0
        atexit.register(self._finish)

    def constructed(self, module: Any, frame: types.FrameType) -> None:
        """Nothing to see."""

    def call(self, original: Call, module: Any, args: tuple[Any, ...], keywords: Json) -> Any:
        stack: list[Open] = self._local.__dict__.setdefault("stack", [])
        if not stack:
            self._guarded(self._enter, module, args)
        mine = self._guarded(self._begin, stack, module)
        if mine is None:
            return original(module, *args, **keywords)
        stack.append(mine)
        try:
            result = original(module, *args, **keywords)
        finally:
            stack.pop()
            end = self._guarded(self._mark)
        if end is not None:
            self._guarded(self._end, mine, end, stack[-1] if stack else None, module, (args, keywords), result)
        return result

    def _guarded(self, do: Any, *arguments: Any) -> Any:
        """A fault in here is told in the report and ends the watching; the user's run goes on."""
        if self._fault:
            return None
        try:
            return do(*arguments)
        except FAULTS as error:
            self._fault = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            return None

    # --- one call ---------------------------------------------------------------------------------------

    def _enter(self, module: Any, args: tuple[Any, ...]) -> None:
        """Before an outermost call: what holds for all calls inside."""
        self._local.cuda = _is_on_cuda(module, args)
        self._local.warm = module in self._names
        self._num_outermost += 1
        self._num_with_gradients += _needs_gradients(module)

    def _mark(self) -> Any:
        return _mark(cuda=self._local.cuda)

    def _begin(self, stack: list[Open], module: Any) -> Open | None:
        if self._local.cuda and _is_capturing():
            return None
        if stack:
            root, names = stack[0].spot.root, stack[0].names
        else:
            self._first_s = self._first_s or time.perf_counter()
            root = type(module).__qualname__
            if not self._local.warm:
                self._names[module] = {id(part): name for name, part in module.named_modules()}
            names = self._names[module]
        path = names.get(id(module), f"<{type(module).__qualname__}>")
        key = (self._local.warm, root, path, type(module))
        spot = self._spots.get(key) or self._spots.setdefault(key, Spot(root, path, _about(module)))
        return Open(spot, self._mark(), names=names)

    def _end(self, mine: Open, end: Any, outer: Open | None, module: Any, given: Any, result: Any) -> None:
        spot = mine.spot
        mine.flops += _flops(module, result)
        spot.num_calls += 1
        spot.bytes_in += _num_bytes(given)
        spot.bytes_out += _num_bytes(result)
        spot.flops += mine.flops
        spot.precision = spot.precision or _precision(module)
        if outer:
            outer.flops += mine.flops
            outer.spot.precision = outer.spot.precision or spot.precision
        if self._local.cuda:
            self._pending.append((spot, outer.spot if outer else None, mine.start, end))
        else:
            _add(spot, outer.spot if outer else None, end - mine.start)
        if not outer:
            self._between()

    def _between(self) -> None:
        """After an outermost call: the only moment at which anything may be waited for."""
        self._last_s = time.perf_counter()
        is_due = self._last_s - self._written_s > WRITE_EVERY_S
        if (is_due or len(self._pending) > MAX_PENDING) and self._lock.acquire(blocking=False):
            try:
                self._write()
            finally:
                self._lock.release()

    # --- the report -------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self._spots:
            self._guarded(self._write)

    def _write(self) -> None:
        pending, self._pending = self._pending, []
        for spot, outer, start, end in pending:
            end.synchronize()
            _add(spot, outer, start.elapsed_time(end) / 1e3)
        warm_roots = {root for warm, root, *_ in self._spots if warm}
        kept = [spot for (warm, root, *_), spot in list(self._spots.items()) if warm or root not in warm_roots]
        self._empty_call_s = self._empty_call_s or _empty_call_s()
        report = {
            "pid": os.getpid(),
            "device": "cuda" if getattr(self._local, "cuda", False) else "cpu",
            "span_s": self._last_s - self._first_s,
            "hook_s": self._empty_call_s,
            "fault": self._fault,
            "num_outermost": self._num_outermost,
            "num_with_gradients": self._num_with_gradients,
            "spots": [asdict(spot) for spot in kept],
        }
        draft = self._folder / f"time-{os.getpid()}.new"
        draft.write_text(json.dumps(report))
        draft.replace(draft.with_suffix(".json"))
        self._written_s = time.perf_counter()


def _add(spot: Spot, outer: Spot | None, elapsed_s: float) -> None:
    spot.inclusive_s += elapsed_s
    if outer:
        outer.inside_s += elapsed_s


def _mark(*, cuda: bool) -> Any:
    if not cuda:
        return time.perf_counter()
    import torch

    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _about(module: Any) -> Json:
    kind = type(module)
    home = inspect.getmodule(kind)
    parameters = list(module.parameters())
    return {
        "class_name": kind.__qualname__,
        "file": os.path.realpath(file) if (file := getattr(home, "__file__", None)) else "",
        "num_inside": sum(1 for _ in module.modules()) - 1,
        "num_parameters": sum(value.numel() for value in parameters),
        "parameter_bytes": sum(value.numel() * value.element_size() for value in parameters),
    }


def _num_bytes(value: Any) -> int:
    """Of all tensors in lists, tuples and dicts."""
    if isinstance(value, list | tuple):
        return sum(map(_num_bytes, value))
    if isinstance(value, dict):
        return sum(map(_num_bytes, value.values()))
    return int(value.numel() * value.element_size()) if hasattr(value, "element_size") else 0


def _flops(module: Any, result: Any) -> int:
    """Two for each weight that an output element needs: `2 · numel(output) · numel(weight) / out_features`."""
    from torch import nn

    if not isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d) or not hasattr(result, "numel"):
        return 0
    return int(2 * result.numel() * (module.weight.numel() // module.weight.shape[0]))


def _precision(module: Any) -> str:
    """In which a layer's products are computed."""
    import torch

    weight = getattr(module, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.dim() < 2:
        return ""
    kind = weight.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    is_tf32 = dtype is torch.float32 and kind == "cuda" and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if is_tf32 else str(dtype).removeprefix("torch.")


def _needs_gradients(module: Any) -> bool:
    """Whether autograd will follow the call, which leaves every module in it to its own forward."""
    import torch

    return torch.is_grad_enabled() and any(value.requires_grad for value in module.parameters())


def _is_on_cuda(module: Any, args: tuple[Any, ...]) -> bool:
    import torch

    if not torch.cuda.is_initialized():
        return False
    held = [*args, *module.parameters()]
    return any(value.is_cuda for value in held if isinstance(value, torch.Tensor))


def _is_capturing() -> bool:
    import torch

    return bool(torch.cuda.is_current_stream_capturing())


def _empty_call_s() -> float:
    """What watching adds to a call on the host: an empty module by `Timing` against the same module without."""
    import torch

    module, value = torch.nn.Identity(), torch.zeros(1)
    bare = torch.nn.Module._call_impl
    apart = object.__new__(Timing)
    apart._fault = ""
    apart._spots, apart._names, apart._local = {}, weakref.WeakKeyDictionary(), threading.local()
    apart._num_outermost = apart._num_with_gradients = 0
    apart._first_s = apart._last_s = apart._written_s = float("inf")
    apart._pending, apart._lock = [], threading.Lock()
    began_s = time.perf_counter()
    for _ in range(NUM_EMPTY_CALLS):
        bare(module, value)
    between_s = time.perf_counter()
    for _ in range(NUM_EMPTY_CALLS):
        apart.call(bare, module, (value,), {})
    ended_s = time.perf_counter()
    return max(0.0, (ended_s - between_s) - (between_s - began_s)) / NUM_EMPTY_CALLS
