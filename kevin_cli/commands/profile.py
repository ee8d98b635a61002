"""`kevin profile`: where the time of the user's own command goes, and which modules are worth a kernel."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kevin_cli.commands import session as sessions
from kevin_cli.commands.capture import command_words, refuse_failed
from kevin_cli.commands.report import SCHEMA_VERSION, print_object
from kevin_cli.commands.session import Order
from kevin_cli.errors import ExitCode, MachineError, TaskError
from kevin_cli.harness.limits import MAX_BYTES, MIN_BYTES, read_ceilings, with_known
from kevin_cli.harness.roofline import Ceilings
from kevin_cli.harness.shares import Share, best, precisions_of, shares
from kevin_cli.harness.user_command import RATES, reports, resolve, run_watched
from kevin_cli.refine.names import make_folder
from kevin_cli.show.profile import Profiled, profile_block
from kevin_cli.tasks.target import find_python
from kevin_cli.types import DeviceKind

WATCHED_S = 60.0
RATES_TIMEOUT_S = 120.0
SIZES = (MIN_BYTES, MIN_BYTES << 4, MAX_BYTES >> 2)
"""Working sets whose rates are measured: 1, 16 and 256 MiB."""


def run(command: str, flags: Mapping[str, Any]) -> int:
    """Returns the exit code. Raises `KevinError` for what the user should read."""
    flags = dict(flags)
    timeout_s = flags.pop("run_timeout", None) or WATCHED_S
    order = sessions.take_order(flags)
    profiled = profile(command, order, timeout_s)
    if order.as_json:
        print_object(profile_object(profiled))
    else:
        order.screen.result(profile_block(profiled))
    return int(ExitCode.OK)


def profile(command: str, order: Order, timeout_s: float = WATCHED_S) -> Profiled:
    """Run the command, watched, then measure what its device can do. Raises `KevinError`."""
    python = find_python(order.settings.python or None)
    argv = resolve(command_words(run_text(command), python), python)
    folder = make_folder(order.settings.runs.absolute().parent / "profiles", "profile", datetime.now(UTC).date())
    order.screen.say(f"running {command} for at most {timeout_s:g} s …")
    ran = run_watched(argv, {"watch": "time", "folder": str(folder)}, timeout_s)
    refuse_failed(ran, command, folder)
    found = reports(folder, "time")
    if not any(report["spots"] for report in found):
        raise TaskError(f"{command} called no torch module", "does it start Python without -I, -E or -S, and in time?")
    order.screen.say("measuring what this device can do …")
    ceilings = measured_ceilings(python, found, order.settings.cache.absolute())
    return _profiled(command, found, ceilings, order.settings.python)


def run_text(command: str) -> str:
    """A Python file alone is run with python."""
    is_file = command.endswith(".py") and Path(command).is_file()
    return f"python {shlex.quote(command)}" if is_file else command


def measured_ceilings(python: str, found: list[dict[str, Any]], cache: Path) -> Ceilings:
    """Of the device on which the modules ran, in their interpreter, after the run; with what was known before.

    Raises `MachineError`.
    """
    device = _device_of(found)
    argv = [python, str(RATES), device.value, ",".join(map(str, SIZES)), ",".join(precisions_of(found))]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=RATES_TIMEOUT_S, check=True)
        answer = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise MachineError(
            f"can't measure the {device.value} in {python}: {error}", "is it free and has it memory?"
        ) from error
    return with_known(cache, device, answer["device_name"], answer["torch"], read_ceilings(answer))


def profile_object(profiled: Profiled) -> dict[str, Any]:
    """What `--json` prints."""

    def plain(row: Share) -> dict[str, Any]:
        return {**asdict(row), "share": row.share, "gain": row.gain}

    return {
        "schema_version": SCHEMA_VERSION,
        "command": profiled.command,
        "device": profiled.device,
        "forward_us": profiled.forward_us,
        "forward_share": profiled.forward_share,
        "hook_share": profiled.hook_share,
        "modules": [plain(row) for row in profiled.rows],
        "best": [{**plain(row), "optimize": text} for row, text in profiled.best],
        "notes": list(profiled.notes),
    }


def target_text(row: Share) -> str | None:
    """TARGET for the module; `None` when none names it."""
    if _is_users(row.file, row.class_name):
        return f"{_short(row.file)}:{row.class_name}"
    if _is_users(row.root_file, row.root) and row.path and not row.path.startswith("<"):
        return f"{_short(row.root_file)}:{row.root}::{row.path}"
    return None


def optimize_command(row: Share, command: str, python: str) -> str:
    """The command that makes this module faster."""
    target = target_text(row) or ""
    words = ["kevin", "optimize", target, "--run", run_text(command), *(["--python", python] if python else [])]
    return shlex.join(words)


def _profiled(command: str, found: list[dict[str, Any]], ceilings: Ceilings, python: str) -> Profiled:
    rows = shares(found, ceilings)
    chosen = best(rows, lambda row: target_text(row) is not None)
    forward_us = rows[0].total_us
    span_us = 1e6 * max(report["span_s"] for report in found)
    hook_us = 1e6 * sum(report["hook_s"] * spot["num_calls"] for report in found for spot in report["spots"])
    return Profiled(
        command=command,
        device=_device_of(found).value,
        forward_us=forward_us,
        forward_share=min(1.0, forward_us / span_us) if span_us and len(found) == 1 else None,
        hook_share=hook_us / forward_us if forward_us else 0.0,
        rows=rows,
        best=tuple((row, optimize_command(row, command, python)) for row in chosen),
        notes=(
            *(f"watching ended early: {report['fault']}" for report in found if report["fault"]),
            *_gradients(found),
        ),
    )


def _faults(found: list[dict[str, Any]]) -> list[str]:
    return [f"watching ended early: {report['fault']}" for report in found if report["fault"]]


def _gradients(found: list[dict[str, Any]]) -> list[str]:
    """What a kernel can't help: it has no backward, so a call that autograd follows keeps the user's own forward."""
    num, of = (sum(report[key] for report in found) for key in ("num_with_gradients", "num_outermost"))
    text = f"{num} of {of} outermost calls need gradients: there your own forward runs, kernels help the others only"
    return [text] if num else []


def _device_of(found: list[dict[str, Any]]) -> DeviceKind:
    return DeviceKind.CUDA if any(report["device"] == "cuda" for report in found) else DeviceKind.CPU


def _is_users(file: str, class_name: str) -> bool:
    """Whether TARGET can name it: at the top level of a file that is not an installed package's."""
    installed = {sysconfig.get_paths()[name] for name in ("purelib", "platlib", "stdlib")}
    parts = Path(file).parts
    is_installed = "site-packages" in parts or "dist-packages" in parts or any(file.startswith(p) for p in installed)
    return bool(file) and file.endswith(".py") and not is_installed and class_name.isidentifier()


def _short(file: str) -> str:
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative
