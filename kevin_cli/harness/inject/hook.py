"""Wait until torch is imported, then let a watcher stand around every call of an `nn.Module`.

The wrapper is put into `nn.Module` itself as soon as its file has run, so that no module escapes that is called
through `__call__`. What a `torch.compile`d region does inside is not seen: whoever starts the command switches
that off by `TORCHDYNAMO_DISABLE`. Not seen either: TorchScript, and processes started with `python -I`, `-E`
or `-S`, which read no `PYTHONPATH`.
"""

from __future__ import annotations

import functools
import json
import sys
import types
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, Protocol

MODULE = "torch.nn.modules.module"

Call = Callable[..., Any]


class Watcher(Protocol):
    """What stands around the calls. It must never change what they do, nor raise."""

    def call(self, original: Call, module: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any: ...

    def constructed(self, module: Any, frame: types.FrameType) -> None: ...


def install(plan_path: str) -> None:
    """`plan_path`: a JSON file that says what to watch for and where the report goes."""
    plan = json.loads(Path(plan_path).read_text())
    sys.meta_path.insert(0, _AfterModule(functools.partial(_wrap, plan)))


class _AfterModule(MetaPathFinder):
    """Finds one module the usual way and calls `then` when its code has run."""

    def __init__(self, then: Callable[[types.ModuleType], None]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_then(module: types.ModuleType) -> None:
                run(module)
                self._then(module)

            spec.loader.exec_module = run_then  # type: ignore[method-assign]
        return spec


def _wrap(plan: dict[str, Any], module: types.ModuleType) -> None:
    watcher = _watcher(plan)
    kind = module.Module
    call, construct = kind.__call__, kind.__init__

    @functools.wraps(call)
    def watched_call(self: Any, *args: Any, **keywords: Any) -> Any:
        return watcher.call(call, self, args, keywords)

    @functools.wraps(construct)
    def watched_init(self: Any, *args: Any, **keywords: Any) -> None:
        construct(self, *args, **keywords)
        watcher.constructed(self, sys._getframe(1))

    kind.__call__, kind.__init__ = watched_call, watched_init


def _watcher(plan: dict[str, Any]) -> Watcher:
    if plan["watch"] == "time":
        from kevin_cli.harness.inject.timing import Timing

        return Timing(plan)
    if plan["watch"] == "swap":
        from kevin_cli.harness.inject.swap import Swap

        return Swap(plan)
    from kevin_cli.harness.inject.capture import Capture

    return Capture(plan)
