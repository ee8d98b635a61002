"""`--run`: run the user's own command, see how it calls the module, and take the inputs from there."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from kevin_cli.errors import TaskError, UsageError
from kevin_cli.harness.seen_calls import Seen, kind_words, read_seen, write_inputs
from kevin_cli.harness.user_command import OUTPUT, Ran, reports, resolve, run_watched
from kevin_cli.refine.names import make_folder
from kevin_cli.settings import Settings
from kevin_cli.show.screen import Screen
from kevin_cli.tasks.names import task_name
from kevin_cli.tasks.target import Given
from kevin_cli.types import Target

PYTEST = "pytest::"
MAX_CALLS = 256
ENOUGH_S = 20.0
"""After so long since the first call, and a few calls, nothing new is waited for."""
MAX_BYTES = 256 << 20
"""Of values that are kept, and of weights."""
NUM_OTHERS = 4


def captured(target: Target, given: Given, settings: Settings, screen: Screen) -> Target:
    """The target with the inputs, constructor arguments and weights of the calls in the user's run.

    Raises `UsageError` for a command that can't be run, `TaskError` when it fails or never calls the module.
    """
    if target.class_name.endswith("()"):
        raise UsageError(
            f"--run can't tell which module {target.class_name} is", "name its class, or a variable that holds it"
        )
    argv = resolve(command_words(given.run, target.python), target.python)
    folder = new_folder(captures_folder(settings), target)
    screen.say(f"running {given.run} to see how {target.class_name} is called …")
    ran = run_watched(argv, _plan(target, folder), given.run_timeout_s, lambda: _has_enough(folder))
    refuse_failed(ran, given.run, folder)
    seen = read_seen(reports(folder, "calls"))
    _refuse_unseen(seen, ran, target, given)
    _tell(seen, ran, screen)
    return _with_seen(target, seen, folder)


def captures_folder(settings: Settings) -> Path:
    return settings.runs.absolute().parent / "captures"


def new_folder(root: Path, target: Target) -> Path:
    folder = make_folder(root, task_name(target), datetime.now(UTC).astimezone().date())
    if root.parent.name == ".kevin":
        (root.parent / ".gitignore").write_text("*\n")
    return folder


def command_words(text: str, python: str) -> list[str]:
    """The words of a command; `pytest::tests/test_x.py::name` is that one test. Raises `UsageError`."""
    if text.startswith(PYTEST):
        return [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", text.removeprefix(PYTEST)]
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"can't read the command {text!r}: {error}", "quote it as for a shell") from error
    if not words:
        raise UsageError("the command is empty", "write it as you run it: 'python train.py'")
    return words


def refuse_failed(ran: Ran, command: str, folder: Path) -> None:
    """Raises `TaskError` when the command ended by itself and not well."""
    if not ran.has_failed:
        return
    how = f"with exit code {ran.exit_code}" if ran.exit_code > 0 else f"by signal {-ran.exit_code}"
    if ran.is_out_of_memory:
        how += ": not enough memory"
    last = f": {ran.last_line}" if ran.last_line else ""
    raise TaskError(f"{command} ended {how}{last}", f"it must run as it is; all it printed: {folder / OUTPUT}")


def _plan(target: Target, folder: Path) -> dict[str, object]:
    return {
        "watch": "calls",
        "path": target.path,
        "name": target.class_name,
        "submodule": target.submodule,
        "folder": str(folder),
        "max_calls": MAX_CALLS,
        "max_s": ENOUGH_S,
        "max_bytes": MAX_BYTES,
    }


def _has_enough(folder: Path) -> bool:
    return any(report["enough"] for report in reports(folder, "calls"))


def _refuse_unseen(seen: Seen, ran: Ran, target: Target, given: Given) -> None:
    """Raises `TaskError` unless there is a kind of calls to go by."""
    if seen.kinds:
        return
    name = target.class_name + (f"::{target.submodule}" if target.submodule else "")
    if seen.odd:
        raise TaskError(
            f"{name} is called with {', '.join(seen.odd)}, which kevin cannot hand to another process",
            "use tensors, numbers, strings, None, and lists, tuples and dicts of them, or point at a module inside",
        )
    if seen.faults:
        raise TaskError(f"the calls of {name} could not be recorded: {seen.faults[0]}", "try a smaller run")
    if ran.stopped == "time":
        raise TaskError(
            f"{name} was not called within {given.run_timeout_s:g} s", "give it longer: --run-timeout SECONDS"
        )
    raise TaskError(
        f"{given.run} never called {name} of {target.path}",
        "is it that class, called as module(x), and does the command start Python without -I, -E or -S?",
    )


def _tell(seen: Seen, ran: Ran, screen: Screen) -> None:
    kind, *others = seen.kinds
    why = {"enough": ", which was enough", "time": " in the time it had"}.get(ran.stopped, "")
    screen.say(f"seen: {seen.num_calls} calls{why}; the contract: {kind_words(kind)}, {kind['num_calls']} times")
    for other in others[:NUM_OTHERS]:
        screen.say(f"  also seen: {kind_words(other)}, {other['num_calls']} times: outside the contract")
    if len(others) > NUM_OTHERS:
        screen.say(f"  and {len(others) - NUM_OTHERS} kinds more")
    if kind["autocast"]:
        screen.say("  it runs under autocast there; it is verified without, and under autocast your own forward runs")
    if kind["grad"] or kind["training"]:
        why = "need gradients" if kind["grad"] else "are in training mode"
        screen.say(f"  these calls {why}: a kernel is verified without, and in such calls your own forward will run")
    if "odd" in seen.init:
        screen.say(f"  its constructor was given a {seen.init['odd']}, which can't be written down for a candidate")
    for fault in seen.faults:
        screen.say(f"  not recorded: {fault}")


def _with_seen(target: Target, seen: Seen, folder: Path) -> Target:
    """The weights only together with the constructor arguments that they fit."""
    inputs = write_inputs(folder, seen)
    is_file = (folder / seen.state).is_file() if seen.state else False
    own = "get_init_inputs" in Path(target.path).read_text(encoding="utf-8", errors="replace")
    takes_weights = is_file and not target.weights and not own and "odd" not in seen.init
    weights = str(folder / seen.state) if takes_weights else target.weights
    return replace(target, inputs_from=f"{inputs}:get_inputs", weights=weights)
