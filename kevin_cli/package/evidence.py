"""What a package says about itself: `verification.json` for programs, `VERIFICATION.md` for people.

Both state what was checked and what was not. The JSON is also what the package's guard enforces, so the
claim and the behaviour can't drift apart. Nothing is rounded up: intervals stand beside medians, losses
beside wins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kevin_cli import __version__
from kevin_cli.records import to_plain
from kevin_cli.types import (
    DEFAULT_STREAM_ONLY,
    Candidate,
    Comparison,
    Nans,
    OutputCheck,
    Roofline,
    Task,
    TaskReport,
    TensorSpec,
    Verdict,
)

SCHEMA_VERSION = 1
FORMAT = "kevin package"
"""Marks a folder as ours; only such a folder is ever replaced."""

RECORDS = ("verification.json",)
"""What holds the hashes of all else, and none of itself."""
PAPERS = ("VERIFICATION.md", "py.typed", "pyproject.toml")
"""What stands beside the code; hashed apart from it, since pip does not install all of it."""

DESCRIBED = (
    *("form", "attributes", "keyword_names", "contract", "inputs", "outputs", "output_specs"),
    *("init", "init_keywords", "parameters", "training"),
)
"""Fields of a task that say what was verified; recorded as they are, and compared when it is verified again."""

NOT_CHECKED = (
    "inputs outside the contract below: the original module runs for them",
    "infinities in the inputs, where yours have none: right ways to compute differ in what becomes of them",
    "gradients: the kernel is forward-only; in grad mode, when an input or a weight requires a gradient, the original "
    "module runs and autograd sees it alone",
    "other devices, drivers and versions of torch than those named below",
    "plain attributes of submodules that are changed after construction",
    "calls under torch.compile and torch.export beyond what the guard decides when they are traced",
    "speed inside a larger program, and speed through the guard, which costs some µs a call",
)

NOT_SANITIZED = "compute-sanitizer: it was not asked for"
NANS_CHECKED = "NaN in the inputs: it comes out where the module's does"
NANS_NOT_CHECKED = {
    Nans.IGNORE: "NaN in the inputs: the judge was told to ignore it (nans = ignore)",
    None: "NaN in the inputs: the module can't be given any, or was not",
}


def record(
    task: Task, candidate: Candidate, verdict: Verdict, report: TaskReport, judged_at: str = ""
) -> dict[str, Any]:
    """Everything that `verification.json` holds. `judged_at`: ISO 8601, when the verdict is not of just now."""
    plain = to_plain(task)
    judged = _without_samples(to_plain(verdict))
    del judged["log"]
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "kevin": __version__,
        "written": judged_at or datetime.now(UTC).isoformat(timespec="seconds"),
        "name": task.name,
        "class_name": task.class_name,
        "task": task.digest,
        "target": task.target.class_name,
        "submodule": task.target.submodule,
        "recipes": plain["target"]["recipes"],
        "inputs_factory": task.target.inputs_from.rpartition(":")[2],
        "candidate": candidate.digest,
        **{key: plain[key] for key in DESCRIBED},
        "weights": judged["weights"],
        "default_stream_only": DEFAULT_STREAM_ONLY in verdict.notes,
        "device_name": report.device_name,
        "versions": dict(report.versions),
        "baselines": [{"name": name, **_without_samples(to_plain(timing))} for name, timing in report.baselines],
        "baselines_missing": dict(report.missing),
        "weak_check": verdict.weak_check or report.weak_check,
        "roofline": to_plain(report.roofline) | {"share": share_of(verdict, report)} if report.roofline else None,
        "verdict": judged,
        "checked": checked(verdict),
        "not_checked": not_checked(verdict),
    }


def hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """sha256 in hex of those of the named files that are there."""
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names if (folder / name).is_file()
    }


def _without_samples(plain: Any) -> Any:
    """Single times stay in the record of the run; medians, intervals and counts are evidence enough."""
    if isinstance(plain, dict):
        return {key: _without_samples(value) for key, value in plain.items() if key != "samples_us"}
    return [_without_samples(value) for value in plain] if isinstance(plain, list | tuple) else plain


def share_of(verdict: Verdict, report: TaskReport) -> float | None:
    """How much of the limit the kernel reaches; `None` when one of both was not measured."""
    if report.roofline is None or not verdict.comparisons:
        return None
    return report.roofline.share(verdict.comparisons[0].candidate_timing.median_us)


def checked(verdict: Verdict) -> list[str]:
    """What was verified, one sentence each."""
    sentences = [
        f"outputs on {len(verdict.seeds)} secret seeds, drawn after the kernel was loaded",
        f"every output of these against the user's own module in {verdict.reference_precision or 'float64'}",
        *(["weights that the kernel had not seen when it was loaded"] if verdict.weights else []),
        "a secret choice of the calls of secretly chosen timed blocks",
        *([NANS_CHECKED] if verdict.nans is Nans.PROPAGATE else []),
        *(f"compute-sanitizer {one.tool}: {one.detail}" for one in verdict.sanitized if one.passed),
    ]
    return sentences + [
        f"output {check.index}: RMS error {check.rms_error:.2e}, allowed {check.bound:.2e}, "
        f"the module's own {check.reference_rms_error:.2e}{_classes(check)}"
        for check in verdict.checks
    ]


def _classes(check: OutputCheck) -> str:
    if not (check.precision_class and check.reference_class):
        return ""
    return f"; precision {check.precision_class}, the module's {check.reference_class}"


def not_checked(verdict: Verdict) -> list[str]:
    """What was not verified, one sentence each."""
    sanitized = [f"compute-sanitizer {one.tool}: {one.detail}" for one in verdict.sanitized if not one.passed]
    nans = [NANS_NOT_CHECKED[verdict.nans]] if verdict.nans in NANS_NOT_CHECKED else []
    return [*NOT_CHECKED, *nans, *(sanitized or ([] if verdict.sanitized else [NOT_SANITIZED]))]


def readable(record: Mapping[str, Any], task: Task, verdict: Verdict, report: TaskReport) -> str:
    """`VERIFICATION.md`."""
    weak = f"\n**Weak check: this task cannot tell right from wrong: {record['weak_check']}**\n" * bool(
        record["weak_check"]
    )
    sections = (
        ("Speed", [*map(_comparison, verdict.comparisons), *_missing(report), *_limit(verdict, report)]),
        ("Checked", record["checked"]),
        ("Not checked", record["not_checked"]),
        ("Contract", _contract(task, verdict)),
        ("Where and how", _conditions(record, verdict)),
        ("Weights (kernel ← module)", [f"`{theirs}` ← `{ours}`" for theirs, ours in verdict.weights] or ["none"]),
        ("Replay", [f"seeds: {', '.join(map(str, verdict.seeds))}", f"kernel.py: sha256 `{record['candidate']}`"]),
    )
    body = "\n\n".join(f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines) for title, lines in sections)
    head = f"# {task.name}: what was verified\n\nWritten by kevin {record['kevin']}, {record['written']}.\n"
    return f"{head}{weak}\n{body}\n"


def _comparison(comparison: Comparison) -> str:
    word = "faster" if comparison.is_faster else "slower" if comparison.is_slower else "no difference"
    return (
        f"against {comparison.baseline}: {word}; {comparison.median:.3f} times "
        f"({comparison.low:.3f} … {comparison.high:.3f}, 95 %), noise floor {comparison.noise_floor:.3f}; "
        f"{comparison.candidate_timing.median_us:.1f} µs against {comparison.baseline_timing.median_us:.1f} µs"
    )


def _missing(report: TaskReport) -> list[str]:
    return [f"against {name}: not measured: {why}" for name, why in report.missing]


def _limit(verdict: Verdict, report: TaskReport) -> list[str]:
    limit, share = report.roofline, share_of(verdict, report)
    if limit is None or share is None:
        return []
    certain = "" if limit.is_certain else ", an estimate"
    reached = f"reaches {share:.0%} of it" if share <= 1.0 else "is faster: it was measured under load and is too low"
    return [f"limit of the device: {limit.limit_us:.1f} µs ({_side(limit)}{certain}); the kernel {reached}"]


def _side(limit: Roofline) -> str:
    side = f"{limit.num_bytes} bytes at {limit.bytes_per_s / 1e9:.1f} GB/s"
    if limit.limited_by == "compute":
        side = f"{limit.num_flops} operations at {limit.flops_per_s / 1e12:.2f} TFLOP/s"
    return side + (", in the cache" if limit.limited_by == "cache" else "")


def _contract(task: Task, verdict: Verdict) -> list[str]:
    lines = [f"input {index}: {_spec(spec)}" for index, spec in enumerate(task.contract.inputs)]
    lines += ["with torch's default stream current: the kernel is right on no other"] * (
        DEFAULT_STREAM_ONLY in verdict.notes
    )
    mode = "training" if task.training else "evaluation"
    return [*lines, f"on {task.contract.device.value}, in {mode} mode, without gradients, without autocast"]


def _spec(spec: TensorSpec) -> str:
    domain = f", values {spec.domain.kind} {spec.domain.low:g} … {spec.domain.high:g}" if spec.domain else ""
    return f"`{spec.dtype}{list(spec.shape)}`, strides {list(spec.strides)}{domain}"


def _conditions(record: Mapping[str, Any], verdict: Verdict) -> list[str]:
    versions = ", ".join(f"{name} {value}" for name, value in record["versions"].items())
    return [
        f"device: {record['device_name'] or record['contract']['device']}",
        f"versions: {versions or 'not recorded'}",
        f"isolation of the candidate: {verdict.isolation.value}; rules: {verdict.rules.value}",
    ]
