"""`kevin optimize --auto COMMAND`: profile it, make its best modules faster in turn, and time the whole with them.

The time of the whole is that of the user's own command, run with the modules as they are and with the packages
patched in, by turns, five times each. A module that its package does not fit keeps its own forward, and so does a
call outside of a contract: calls that need gradients, above all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kevin_cli.commands import session as sessions
from kevin_cli.commands.capture import command_words, refuse_failed
from kevin_cli.commands.optimize import EXIT_CODES, search
from kevin_cli.commands.profile import profile, profile_object, run_text, target_text
from kevin_cli.commands.report import SCHEMA_VERSION, Ended, optimize_object, print_object
from kevin_cli.commands.session import Order
from kevin_cli.errors import ExitCode, KevinError, StoppedError, UsageError
from kevin_cli.harness.statistics import compare
from kevin_cli.harness.user_command import reports, resolve, run_watched
from kevin_cli.refine.names import make_folder
from kevin_cli.show.profile import profile_block
from kevin_cli.tasks.target import NOTHING_GIVEN, Given, find_python
from kevin_cli.types import Comparison

NUM_PAIRS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The command's time without and with the packages."""

    speed: Comparison
    swapped: tuple[str, ...]
    """Where a package was put in."""
    faults: tuple[str, ...]


def run(command: str, flags: Mapping[str, Any]) -> int:
    """0: a module became faster; else as the last one ended. Raises `KevinError` for what the user should read."""
    order = sessions.take_order(flags)
    if replace(order.given, run_timeout_s=NOTHING_GIVEN.run_timeout_s) != NOTHING_GIVEN:
        raise UsageError("--auto finds the inputs itself", "leave out --run, --input, --inputs and --weights")
    profiled = profile(command, order)
    order.screen.say(profile_block(profiled))
    if not profiled.best:
        return int(ExitCode.NOTHING_TO_DO)
    given = replace(order.given, run=run_text(command))
    tried = [(text, _tried(text, order, given)) for row, _ in profiled.best if (text := target_text(row))]
    packages = [ended.output for _, ended in tried if isinstance(ended, Ended) and ended.output]
    whole = _whole(command, order, given, packages) if packages else None
    _tell(order, tried, whole)
    if order.as_json:
        print_object({**_object(tried, whole), "profile": profile_object(profiled)})
    return _exit_code(tried)


def _tried(text: str, order: Order, given: Given) -> Ended | KevinError:
    """One module taken all the way; what stops it does not stop the others."""
    order.screen.say(f"--- {text}")
    mine = replace(order, given=given)
    try:
        return sessions.run_to_end(search(mine, sessions.find_target(text, mine)))
    except StoppedError:
        raise
    except KevinError as error:
        order.screen.say(f"{text}: {error.message}")
        return error


def _whole(command: str, order: Order, given: Given, packages: Sequence[Path]) -> Whole | None:
    """Runs by turns, the order changing, so that a drift of the machine hits both. `None`: it can't be timed."""
    order.screen.say(f"timing {command} with and without, {NUM_PAIRS} times each …")
    times: dict[bool, list[float]] = {False: [], True: []}
    seen: dict[str, Any] = {}
    for pair in range(NUM_PAIRS):
        for is_with in (False, True) if pair % 2 == 0 else (True, False):
            report = _timed(command, order, given, packages if is_with else ())
            if report is None:
                order.screen.say("it can't be timed: one process must end by itself after calling a module twice")
                return None
            times[is_with].append(1e6 * report["span_s"] / report["num_calls"])
            seen = report if is_with else seen
    speed = compare(times[False], times[True], 0.0, "as it was", 0)
    return Whole(speed=speed, swapped=tuple(seen["swapped"]), faults=tuple(seen["faults"]))


def _timed(command: str, order: Order, given: Given, packages: Sequence[Path]) -> dict[str, Any] | None:
    python = find_python(order.settings.python or None)
    folder = make_folder(order.settings.runs.absolute().parent / "profiles", "whole", datetime.now(UTC).date())
    plan = {"watch": "swap", "folder": str(folder), "packages": [str(path.absolute()) for path in packages]}
    ran = run_watched(resolve(command_words(given.run, python), python), plan, given.run_timeout_s)
    refuse_failed(ran, command, folder)
    found = reports(folder, "swap")
    return found[0] if len(found) == 1 and not ran.stopped else None


def _tell(order: Order, tried: Sequence[tuple[str, Ended | KevinError]], whole: Whole | None) -> None:
    if order.as_json:
        return
    for text, ended in tried:
        how = ended.outcome.replace("_", " ") if isinstance(ended, Ended) else ended.message
        order.screen.result(f"{text}: {how}")
    if whole is None:
        return
    speed = whole.speed
    before, after = speed.baseline_timing.median_us / 1e3, speed.candidate_timing.median_us / 1e3
    word = "faster" if speed.low > 1 else "slower" if speed.high < 1 else "no difference from run to run"
    order.screen.result(
        f"the whole: {word}, {speed.median:.3f}× [{speed.low:.3f} … {speed.high:.3f}], "
        f"{before:.2f} ms → {after:.2f} ms an outermost call and what lies between two; torch.compile off in both"
    )
    order.screen.result(f"patched in: {', '.join(whole.swapped) or 'nowhere, nothing fits'}")
    for fault in whole.faults:
        order.screen.result(f"not patched in: {fault}")


def _object(tried: Sequence[tuple[str, Ended | KevinError]], whole: Whole | None) -> dict[str, Any]:
    speed = whole.speed if whole else None
    return {
        "schema_version": SCHEMA_VERSION,
        "modules": [
            {"target": text, **(optimize_object(ended) if isinstance(ended, Ended) else {"error": ended.message})}
            for text, ended in tried
        ],
        "whole": {"median": speed.median, "low": speed.low, "high": speed.high} if speed else None,
        "swapped": list(whole.swapped) if whole else [],
    }


def _exit_code(tried: Sequence[tuple[str, Ended | KevinError]]) -> int:
    codes = [EXIT_CODES[ended.outcome] if isinstance(ended, Ended) else ended.exit_code for _, ended in tried]
    return int(ExitCode.OK if ExitCode.OK in codes else codes[-1])
