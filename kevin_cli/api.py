"""kevin from Python, in a script or a notebook: `kevin_cli.optimize(...)`.

    import kevin_cli

    found = kevin_cli.optimize(model.block, torch.randn(8, 1024))
    if found.is_faster:
        model.block = found.module

The same search, judge and package as `kevin optimize`; progress goes to stderr. Nothing of the caller's is
changed: `module` is a copy that uses the kernel inside its contract, in evaluation mode and without gradients.

The reference and every candidate run in processes of their own, so a live module is written to a file first,
pickled with its weights: its classes must be importable from files. A class that was typed into a notebook's
cell is refused. A script that calls this needs the usual `if __name__ == "__main__"` when it defines the class
itself, since that script is imported once more then.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from kevin_cli.commands import session as sessions
from kevin_cli.commands.capture import captures_folder
from kevin_cli.commands.optimize import search
from kevin_cli.commands.report import Ended
from kevin_cli.commands.session import Order
from kevin_cli.errors import StoppedError, UsageError
from kevin_cli.harness.live_module import write_call, write_module
from kevin_cli.refine.names import make_folder
from kevin_cli.tasks.names import identifier
from kevin_cli.tasks.target import Given
from kevin_cli.types import Target, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimized:
    """What `optimize` came to."""

    outcome: str
    """`faster`, `no_gain`, `nothing_to_optimize`, `budget` or `interrupted`, as `kevin optimize --json` says it."""
    note: str
    verdict: Verdict | None
    """Of the best kernel, judged a second time; `None` when there was none."""
    path: Path | None
    """The folder of the package; `None` unless the kernel is faster."""
    run: Path | None
    """The record of the run: `kevin show`."""
    module: Any
    """For a module: a copy of it with the kernel, or the module itself when nothing faster was found. For a TARGET:
    the imported package, with the class or function in place of the user's own and `patch`, or `None`."""

    @property
    def is_faster(self) -> bool:
        return self.outcome == "faster"


def optimize(
    module_or_target: Any,
    example_inputs: Any = None,
    *,
    device: Literal["auto", "cuda", "cpu"] = "auto",
    turns: int | None = None,
    trajectories: int | None = None,
    baseline: Literal["fastest", "eager"] | None = None,
    out: Path | str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Optimized:
    """A verified, faster version of a module.

    `module_or_target`: an `nn.Module`, or a TARGET as on the command line (`"net.py:Net"`). `example_inputs`: a
    tensor, a list or tuple of arguments, or a dict of them by name; required for a module. What is verified is
    their shapes, dtypes and strides, with fresh values of the same statistics. `settings`: the other options of
    `kevin optimize` by name (`model=`, `endpoint=`, `python=`, `inputs=`, `max_time=`, ...).

    Raises `kevin_cli.errors.KevinError` for what the command would exit with 2, 3 or 4 for.
    """
    flags = {
        **{"device": device, "turns": turns, "trajectories": trajectories, "baseline": baseline},
        **{"out": Path(out) if out is not None else None, "as_json": True, "quiet": quiet, "verbose": False},
    }
    order = sessions.take_order({**flags, **settings})
    is_target = isinstance(module_or_target, str | Path)
    target = _given_target(order, module_or_target, example_inputs)
    ended = finish(search(order, target))
    package = _import_package(ended.output) if ended.output else None
    return Optimized(
        outcome=ended.outcome,
        note=ended.note,
        verdict=ended.final,
        path=ended.output,
        run=ended.run,
        module=package if is_target else _with_kernel(module_or_target, package),
    )


def _given_target(order: Order, given: Any, example_inputs: Any) -> Target:
    """Raises `UsageError` for something that is neither a module nor a TARGET."""
    if isinstance(given, str | Path):
        if example_inputs is None:
            return sessions.find_target(str(given), order)
        folder = _new_folder(order, "inputs")
        return sessions.find_target(str(given), _with_inputs(order, write_call(folder, example_inputs)))
    if not hasattr(given, "named_modules"):
        raise UsageError(f"{type(given).__name__} is no module", "give an nn.Module, or a TARGET: 'net.py:Net'")
    if example_inputs is None:
        raise UsageError("example_inputs are missing", "give the arguments of one call: optimize(module, (x, mask))")
    name = identifier(type(given).__name__)
    folder = _new_folder(order, name)
    file = write_module(folder, given, name)
    return sessions.find_target(f"{file}:{name}()", _with_inputs(order, write_call(folder, example_inputs)))


def _new_folder(order: Order, name: str) -> Path:
    return make_folder(captures_folder(order.settings), name, datetime.now(UTC).astimezone().date())


def _with_inputs(order: Order, file: Path) -> Order:
    """Raises `UsageError` when the inputs were given in two ways."""
    if order.given.recipes or order.given.inputs or order.given.run:
        raise UsageError("example_inputs give the inputs already", "leave inputs=, recipes= and run= out")
    return replace(order, given=Given(inputs=f"{file}:get_inputs", weights=order.given.weights))


def _with_kernel(module: Any, package: ModuleType | None) -> Any:
    if package is None:
        return module
    copy = deepcopy(module).eval()
    package.patch(copy)
    return copy


def _import_package(folder: Path) -> ModuleType:
    """From where it lies, and anew: an earlier version may be imported already."""
    name = folder.name
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
        del sys.modules[loaded]
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


def finish(story: Coroutine[Any, Any, Ended]) -> Ended:
    """Run to the end, in a thread where an event loop runs already, as in a notebook.

    An interrupt ends the search, whose result so far is returned. Raises `StoppedError` when there is none yet.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return sessions.run_to_end(story)
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Ended]]] = Future()

    async def run() -> Ended:
        task = asyncio.ensure_future(story)
        begun.set_result((asyncio.get_running_loop(), task))
        return await task

    with ThreadPoolExecutor(1, "kevin") as pool:
        ended = pool.submit(asyncio.run, run())
        try:
            return ended.result()
        except KeyboardInterrupt:
            loop, task = begun.result()
            loop.call_soon_threadsafe(task.cancel)
            return _after_interrupt(ended)


def _after_interrupt(ended: Future[Ended]) -> Ended:
    try:
        return ended.result()
    except asyncio.CancelledError as error:
        raise StoppedError("interrupted; nothing was found yet and nothing was written") from error
