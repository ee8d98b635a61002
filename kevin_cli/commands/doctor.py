"""`kevin doctor`: tries everything the main job needs, and ends with a timing of a thing against itself."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kevin_cli.commands import probes
from kevin_cli.commands import session as sessions
from kevin_cli.commands.report import SCHEMA_VERSION, print_object
from kevin_cli.commands.serve import wish_of
from kevin_cli.commands.session import Order
from kevin_cli.errors import ExitCode, KevinError
from kevin_cli.harness.device import choose as choose_device
from kevin_cli.harness.device import gpu_names
from kevin_cli.harness.roofline import Ceilings
from kevin_cli.policies.choose import choose as choose_policy
from kevin_cli.refine.result import speed_word
from kevin_cli.settings import Settings
from kevin_cli.show.findings import Finding, finding_lines
from kevin_cli.show.words import plus_minus
from kevin_cli.tasks.target import find_python
from kevin_cli.types import Candidate, DeviceKind, Roofline, Rules, Target, Verdict

BLOCKING = ("torch", "timing", "disk", "ninja")
"""Without these nothing works; a compiler is needed for whichever device was chosen."""

WIDE = {DeviceKind.CPU: 0.10, DeviceKind.CUDA: 0.02}
"""An interval with a longer arm than this hides most gains that a kernel could have."""
QUIET_FIX = "stop other work on this machine, and run this again"

MODULE = """import torch
from torch import nn

SIZE = {"cpu": (256, 1024), "cuda": (4096, 4096)}["cuda" if torch.cuda.is_available() else "cpu"]


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(SIZE)]
"""
SAME = MODULE.replace("Model(", "ModelNew(")


def run(flags: Mapping[str, Any]) -> int:
    """0: the main job can run here; 3: it can't."""
    order = sessions.take_order(flags)
    python = find_python(order.settings.python or None)
    findings = []
    for finding in _probe(order, python):
        findings.append(finding)
        if not order.as_json:
            order.screen.result(finding_lines(finding))
    is_usable = _is_usable(findings)
    if order.as_json:
        plain = [asdict(finding) for finding in findings]
        print_object({"schema_version": SCHEMA_VERSION, "usable": is_usable, "findings": plain})
    elif not is_usable:
        order.screen.result("this machine can't run `kevin optimize` yet: see 'missing' above")
    return int(ExitCode.OK if is_usable else ExitCode.MACHINE)


def _probe(order: Order, python: str) -> Iterator[Finding]:
    """Every probe in turn, cheap ones first."""
    sessions.make_cache(order.settings.cache)
    has_gpu = bool(gpu_names())
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=order.settings.cache) as scratch:
        folder = Path(scratch)
        yield probes.cache(folder)
        yield probes.compiler(folder)
        yield probes.nvcc(folder, python, has_gpu=has_gpu)
        yield probes.ninja(folder)
        yield probes.gpu()
        torch = probes.torch(folder, python, has_gpu=has_gpu)
        yield torch
        yield probes.sandbox()
        yield asyncio.run(_model(order.settings))
        if torch.state != "missing":
            yield from asyncio.run(_self_timing(order, python, folder))


async def _model(settings: Settings) -> Finding:
    """Whether the configured model or endpoint is there."""
    try:
        choice = await choose_policy(
            settings.model or None, settings.endpoint or None, device=DeviceKind.CPU, wish=wish_of(settings, "")
        )
    except KevinError as error:
        return Finding("model", "missing", error.message, error.hint)
    return Finding("model", "ok", choice.reason)


async def _self_timing(order: Order, python: str, folder: Path) -> list[Finding]:
    """A module judged as its own candidate: correct, and neither faster nor slower; then the device's limits."""
    path = folder / "softmax.py"
    path.write_text(MODULE)
    target = Target(path=str(path), class_name="Model", python=python)
    candidate = Candidate(source=SAME, digest=hashlib.sha256(SAME.encode()).hexdigest())
    try:
        device = choose_device(order.settings.device, python).kind
        async with sessions.open_judge(order.settings, target, device, Rules.LIBRARY) as judge:
            task = await sessions.lower_target(judge, target)
            verdict, report = await judge.judge(task, candidate), await judge.open_task(task)
            return [timing_finding(verdict, device, report.roofline), limits_finding(await judge.measure_device(task))]
    except KevinError as error:
        return [Finding("timing", "missing", error.message, error.hint)]


def limits_finding(found: Ceilings) -> Finding:
    """The ceilings of the roofline, which are kept: every limit of a task is made from them."""
    beyond = max((rate for size, rate in found.bytes_per_s if size > found.cache_bytes), default=0.0)
    rates = [f"{name} {rate / 1e12:.3g}" for name, rate in found.flops_per_s]
    if not beyond:
        return Finding("limits", "warn", "the memory's speed can't be measured", "free some of the device's memory")
    products = f"; products in TFLOP/s: {', '.join(rates)}" if rates else ""
    return Finding("limits", "ok", f"memory moves {beyond / 1e9:.4g} GB/s{products}")


def timing_finding(verdict: Verdict, device: DeviceKind, limit: Roofline | None) -> Finding:
    """What eager against itself says about the timing: that it decides nothing wrong, and anything at all."""
    comparison = verdict.against("eager")
    if comparison is None:
        return Finding(
            "timing", "missing", f"{verdict.outcome.value}: {verdict.detail}", "report this, with this output"
        )
    text = f"eager against itself on {device.value}: {speed_word(comparison)} ({plus_minus(comparison)})"
    text += f"; data moves at {limit.bytes_per_s / 1e9:.1f} GB/s" if limit else ""
    if speed_word(comparison) != "no difference":
        return Finding("timing", "warn", text, QUIET_FIX)
    if max(comparison.high - comparison.median, comparison.median - comparison.low) > WIDE[device]:
        return Finding("timing", "warn", f"{text}; only large gains can be told here", QUIET_FIX)
    return Finding("timing", "ok", text)


def _is_usable(findings: Sequence[Finding]) -> bool:
    states = {finding.name: finding.state for finding in findings}
    has_compiler = states["compiler"] == "ok" or (states["nvcc"] == "ok" and states["gpu"] == "ok")
    return has_compiler and all(states.get(name, "missing") != "missing" for name in BLOCKING)
