"""The JSON objects of `--json`: one schema, versioned; what was not measured is null, never made up."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kevin_cli.refine.ledger import Price, total_usage
from kevin_cli.refine.result import RunResult
from kevin_cli.types import Comparison, Task, TaskReport, Turn, Verdict

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What `kevin optimize` came to. What was not reached is `None`."""

    task: str
    device: str
    outcome: str
    """`faster`, `no_gain`, `nothing_to_optimize`, `budget` or `interrupted`."""
    baseline: str
    policy: str
    note: str = ""
    report: TaskReport | None = None
    result: RunResult | None = None
    turns: tuple[Turn, ...] = ()
    """Those of a run that has no result: it was killed, or is still going on."""
    run: Path | None = None
    output: Path | None = None
    price: Price | None = None
    branch: str | None = None

    @property
    def final(self) -> Verdict | None:
        """The second verdict of the best candidate: the only one whose numbers are reported."""
        return self.result.ending.final if self.result else None

    @property
    def all_turns(self) -> tuple[Turn, ...]:
        return self.result.turns if self.result else self.turns


def optimize_object(ended: Ended) -> dict[str, Any]:
    """The result of `kevin optimize`."""
    report = ended.report
    return {
        "schema_version": SCHEMA_VERSION,
        "task": ended.task,
        "device": ended.device,
        "outcome": ended.outcome,
        "speedup": speedup_object(ended.final),
        "roofline": roofline_object(report, ended.final),
        "baseline": ended.baseline,
        "output": str(ended.output) if ended.output else None,
        "run": str(ended.run) if ended.run else None,
        "branch": ended.branch,
        "turns": len(ended.all_turns),
        "usage": usage_object(ended),
        "isolation": report.isolation.value if report else None,
        "policy": ended.policy,
        "weak_check": (report.weak_check or None) if report else None,
        "note": ended.note,
        "notes": list(ended.final.notes) if ended.final else [],
    }


def usage_object(ended: Ended) -> dict[str, Any]:
    """Tokens, seconds and money of all turns; `cost` is null without a price."""
    return asdict(total_usage(ended.all_turns, ended.price))


def check_object(task: Task, verdict: Verdict, report: TaskReport, baseline: str) -> dict[str, Any]:
    """The result of `kevin check`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "task": task.name,
        "device": task.contract.device.value,
        "outcome": verdict.outcome.value,
        "detail": verdict.detail,
        "log": verdict.log,
        "speedup": speedup_object(verdict) if verdict.is_correct else None,
        "roofline": roofline_object(report, verdict),
        "baseline": baseline,
        "isolation": verdict.isolation.value,
        "rules": verdict.rules.value,
        "nans": verdict.nans.value if verdict.nans else None,
        "sanitized": [asdict(one) for one in verdict.sanitized],
        "weak_check": verdict.weak_check or None,
        "notes": list(verdict.notes),
    }


def speedup_object(verdict: Verdict | None) -> dict[str, Any]:
    """Median and interval against eager, torch.compile and the fastest; null for what was not compared."""
    found = {name: verdict.against(name) if verdict else None for name in ("eager", "compile")}
    fastest = verdict.against_fastest() if verdict else None
    return {
        "vs_eager": _interval(found["eager"]),
        "vs_compiled": _interval(found["compile"]),
        "vs_fastest": _interval(fastest),
        "fastest": fastest.baseline if fastest else None,
        **_device_side(verdict),
    }


def _device_side(verdict: Verdict | None) -> dict[str, Any]:
    """The speed in a CUDA graph by baseline, and whether launching bounds the kernel; null where there is no graph."""
    if verdict is None or not verdict.in_graph:
        return {"in_graph": None, "launch_bound": None}
    in_graph = {one.baseline: _interval(one) for one in verdict.in_graph}
    return {"in_graph": in_graph, "launch_bound": verdict.launch_bound is not None}


def roofline_object(report: TaskReport | None, verdict: Verdict | None) -> dict[str, Any] | None:
    """The limit, what limits, and how much of it the kernel and the fastest baseline reach."""
    limit = report.roofline if report else None
    if report is None or limit is None:
        return None
    kernel = verdict.comparisons[0].candidate_timing.median_us if verdict and verdict.comparisons else None
    fastest = min((timing.median_us for _, timing in report.baselines), default=None)
    return {
        "limit_us": limit.limit_us,
        "limited_by": limit.limited_by,
        "certain": limit.is_certain,
        "share": limit.share(kernel) if kernel else None,
        "baseline_share": limit.share(fastest) if fastest else None,
    }


def _interval(comparison: Comparison | None) -> dict[str, float] | None:
    if comparison is None:
        return None
    return {"median": comparison.median, "low": comparison.low, "high": comparison.high}


def print_object(thing: dict[str, Any]) -> None:
    """One object on stdout, and nothing else there."""
    print(json.dumps(thing, indent=1, ensure_ascii=False))
