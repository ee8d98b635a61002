"""Record the calls of one class of modules inside the user's own run: forms, statistics, a few real values.

Memory is bounded: tensors are copied to the host one call at a time and go to disk at once, up to `max_bytes`
in all. The run's own results are never touched, and a fault here is written down instead of raised. A call
inside of a CUDA graph's capture is only counted: looking at values would break the capture.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
import types
from pathlib import Path
from typing import Any

from kevin_cli.harness.inject.seen import Json, NotPlainError, form_of, joined, look_at, spec_of
from kevin_cli.harness.inject.which import Which

KEPT_AT = (1, 4, 16)
"""The calls of a kind whose values are kept."""
MAX_KINDS = 64
MAX_KINDS_KEPT = 8
FAULTS = (RuntimeError, ValueError, TypeError, AttributeError, OSError, MemoryError)
Call = Any


class Capture:
    """A watcher (`hook.Watcher`). `plan`: path, name, submodule, folder, max_calls, max_s, max_bytes."""

    def __init__(self, plan: Json) -> None:
        self._plan = plan
        self._folder = Path(plan["folder"])
        self._which = Which(plan["path"], plan["name"], plan["submodule"])
        self._kinds: dict[str, Json] = {}
        self._init: Json | None = None
        self._state = ""
        self._faults: list[str] = []
        self._odd: dict[str, int] = {}
        self._num_calls = self._num_files = self._kept_bytes = 0
        self._began_s = 0.0
        self._lock = threading.RLock()
        self._recording = False
        atexit.register(self._finish)

    def call(self, original: Call, module: Any, args: tuple[Any, ...], keywords: Json) -> Any:
        if not self._recording and self._which.is_meant(module):
            with self._lock:
                self._record(module, args, keywords)
        if self._plan["submodule"] and not self._state and self._which.is_whole(module):
            self._guarded(self._keep_state, module)
        return original(module, *args, **keywords)

    def constructed(self, module: Any, frame: types.FrameType) -> None:
        if self._init is None and self._which.is_of_class(module):
            self._guarded(self._read_arguments, module, frame)

    # --- one call ---------------------------------------------------------------------------------------

    def _record(self, module: Any, args: tuple[Any, ...], keywords: Json) -> None:
        self._recording = True
        self._num_calls += 1
        self._began_s = self._began_s or time.monotonic()
        try:
            self._guarded(self._look, module, args, keywords)
        finally:
            self._recording = False
        if self._has_enough() or self._num_calls & (self._num_calls - 1) == 0:
            self._guarded(self._write)

    def _has_enough(self) -> bool:
        if self._num_calls >= self._plan["max_calls"]:
            return True
        return self._num_calls >= KEPT_AT[-1] and time.monotonic() - self._began_s > float(self._plan["max_s"])

    def _look(self, module: Any, args: tuple[Any, ...], keywords: Json) -> None:
        tensors: list[Any] = []
        try:
            form = [form_of(list(args), tensors), form_of(keywords, tensors)]
        except NotPlainError as error:
            self._odd[str(error)] = self._odd.get(str(error), 0) + 1
            return
        kind = self._kind(module, form, tensors)
        if kind is None or _is_capturing():
            return
        kind["num_calls"] += 1
        num = kind["num_calls"]
        if num & (num - 1) == 0:
            looks = [look_at(tensor) for tensor in tensors]
            kind["looks"] = [joined(*pair) for pair in zip(kind["looks"], looks, strict=True)] if num > 1 else looks
        if num in KEPT_AT and list(self._kinds.values()).index(kind) < MAX_KINDS_KEPT:
            self._keep(kind, tensors)
        if not self._state and not self._plan["submodule"]:
            self._keep_state(module)

    def _kind(self, module: Any, form: list[Any], tensors: list[Any]) -> Json | None:
        import torch

        surroundings = {
            "training": bool(module.training),
            "grad": _needs_gradients(module, tensors),
            "autocast": torch.is_autocast_enabled(tensors[0].device.type) if tensors else False,
            "device": tensors[0].device.type if tensors else "cpu",
        }
        specs = [spec_of(tensor) for tensor in tensors]
        key = json.dumps([form, specs, surroundings])
        if key not in self._kinds and len(self._kinds) < MAX_KINDS:
            self._kinds[key] = {"form": form, "specs": specs, **surroundings, "num_calls": 0, "looks": [], "kept": []}
        return self._kinds.get(key)

    def _keep(self, kind: Json, tensors: list[Any]) -> None:
        """One call's tensors, dense and on the host, into a file of their own."""
        import torch

        num_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if self._kept_bytes + num_bytes > self._plan["max_bytes"]:
            return
        self._kept_bytes += num_bytes
        self._num_files += 1
        name = f"values-{os.getpid()}-{self._num_files}.pt"
        copies = [torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach()) for tensor in tensors]
        torch.save(copies, self._folder / name)
        kind["kept"].append(name)

    def _keep_state(self, module: Any) -> None:
        import torch

        self._state = "none"
        state = module.state_dict()
        if not all(isinstance(value, torch.Tensor) for value in state.values()):
            return
        if sum(value.numel() * value.element_size() for value in state.values()) > self._plan["max_bytes"]:
            self._state = "too large"
            return
        name = f"state-{os.getpid()}.pt"
        torch.save({key: value.detach().cpu().clone() for key, value in state.items()}, self._folder / name)
        self._state = name

    def _read_arguments(self, module: Any, frame: types.FrameType | None) -> None:
        """The arguments of the outermost `__init__` that is at work on the module, as they are now."""
        found = None
        while frame is not None and frame.f_code.co_name == "__init__" and _first_local(frame) is module:
            found, frame = frame, frame.f_back
        if found is None or found.f_code is not getattr(type(module).__init__, "__code__", None):
            return
        args, keywords = _arguments(found)
        held: list[Any] = []
        try:
            form_of([args, keywords], held)
        except NotPlainError as error:
            self._init = {"odd": str(error)}
            return
        self._init = {"odd": "Tensor"} if held else {"args": args, "keywords": keywords}

    # --- the report -------------------------------------------------------------------------------------

    def _guarded(self, do: Any, *arguments: Any) -> None:
        """Whatever fails in here is ours to tell, never the user's to suffer."""
        try:
            do(*arguments)
        except FAULTS as error:
            text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            if text not in self._faults:
                self._faults.append(text)

    def _finish(self) -> None:
        if self._num_calls:
            self._guarded(self._write)

    def _write(self) -> None:
        report = {
            "pid": os.getpid(),
            "num_calls": self._num_calls,
            "enough": self._has_enough(),
            "kinds": list(self._kinds.values()),
            "init": self._init or {},
            "state": self._state,
            "faults": self._faults,
            "odd": self._odd,
        }
        place = self._folder / f"calls-{os.getpid()}.json"
        draft = place.with_suffix(".new")
        draft.write_text(json.dumps(report))
        draft.replace(place)


def _needs_gradients(module: Any, tensors: list[Any]) -> bool:
    """Whether autograd follows the call."""
    import torch

    return torch.is_grad_enabled() and any(value.requires_grad for value in (*tensors, *module.parameters()))


def _first_local(frame: types.FrameType) -> Any:
    names = frame.f_code.co_varnames
    return frame.f_locals.get(names[0]) if names else None


def _arguments(frame: types.FrameType) -> tuple[list[Any], Json]:
    code, values = frame.f_code, dict(frame.f_locals)
    num, num_named = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    args = [values[name] for name in names[1:num]]
    keywords = {name: values[name] for name in names[num : num + num_named]}
    rest = num + num_named
    if code.co_flags & 0x04:
        args += values[names[rest]]
        rest += 1
    if code.co_flags & 0x08:
        keywords |= values[names[rest]]
    return args, keywords


def _is_capturing() -> bool:
    import torch

    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
