"""Put verified packages into the live modules of the user's run, and take the time of its forward-to-forward loop.

The time runs from the end of the first outermost call to the end of the last one, with the GPU waited for at both
ends: import, construction, the first build and what follows the last call are not in it. Without packages the same
is timed for the modules as they are.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
import threading
import time
import types
import weakref
from pathlib import Path
from typing import Any

Json = dict[str, Any]
FAULTS = (RuntimeError, ValueError, TypeError, AttributeError, OSError, ImportError)


class Swap:
    """A watcher (`hook.Watcher`). `plan`: folder, and the folders of packages."""

    def __init__(self, plan: Json) -> None:
        self._plan = plan
        self._packages: list[Any] | None = None
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._local = threading.local()
        self._swapped: list[str] = []
        self._faults: list[str] = []
        self._num_calls = 0
        self._first_s = self._last_s = 0.0
        atexit.register(self._finish)

    def constructed(self, module: Any, frame: types.FrameType) -> None:
        """Nothing to see."""

    def call(self, original: Any, module: Any, args: tuple[Any, ...], keywords: Json) -> Any:
        if getattr(self._local, "inside", False):
            return original(module, *args, **keywords)
        if module not in self._known:
            self._known.add(module)
            self._swap(module)
        self._local.inside = True
        try:
            return original(module, *args, **keywords)
        finally:
            self._local.inside = False
            self._count()

    def _count(self) -> None:
        self._num_calls += 1
        if self._num_calls == 1:
            _settle()
            self._first_s = time.perf_counter()
        self._last_s = time.perf_counter()

    def _swap(self, root: Any) -> None:
        for package in self._imported():
            for path, _ in list(root.named_modules()):
                try:
                    package.patch(root, path)
                except ValueError:  # another module than the verified one
                    continue
                except FAULTS as error:
                    self._faults.append(f"{package.__name__}: {' '.join(str(error).split())[:300]}")
                    continue
                self._swapped.append(path or type(root).__name__)

    def _imported(self) -> list[Any]:
        if self._packages is None:
            self._packages = []
            for folder in map(Path, self._plan["packages"]):
                sys.path.insert(0, str(folder.parent))
                try:
                    self._packages.append(importlib.import_module(folder.name))
                except FAULTS as error:
                    self._faults.append(f"{folder.name}: {' '.join(str(error).split())[:300]}")
                finally:
                    sys.path.remove(str(folder.parent))
        return self._packages

    def _finish(self) -> None:
        if self._num_calls < 2:
            return
        before_s = time.perf_counter()
        _settle()
        report = {
            "span_s": self._last_s - self._first_s + (time.perf_counter() - before_s),
            "num_calls": self._num_calls - 1,
            "swapped": self._swapped,
            "faults": self._faults,
        }
        place = Path(self._plan["folder"]) / f"swap-{os.getpid()}"
        place.with_suffix(".new").write_text(json.dumps(report))
        place.with_suffix(".new").replace(place.with_suffix(".json"))


def _settle() -> None:
    """Wait for the GPU, where one is in use."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
