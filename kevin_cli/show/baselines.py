"""The first thing a user sees: what the task is and how fast PyTorch already does it."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kevin_cli.show.words import BASELINE_NAMES, CAUTION, time_text
from kevin_cli.types import Conditions, Roofline, Target, Task, TaskReport, TensorSpec


def spec_text(spec: TensorSpec) -> str:
    """`float32[32, 512]`."""
    return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]"


def task_line(task: Task, device_name: str) -> Text:
    inputs = ", ".join(spec_text(spec) for spec in task.contract.inputs)
    where = f"{task.contract.device.value} ({device_name})" if device_name else task.contract.device.value
    return Text.assemble((task.name, "bold"), f"  {target_text(task.target)}({inputs}) on {where}")


def target_text(target: Target) -> str:
    """What the user pointed at, by its own name: `Net`, `gelu_tail`, `make_net()`, `Net::norms.1`."""
    return f"{target.class_name}::{target.submodule}" if target.submodule else target.class_name


def baselines_table(task: Task, report: TaskReport) -> RenderableType:
    """Every baseline with its interval and its speed against eager; what is missing, with the reason."""
    device_us = {name: timing.median_us for name, timing in report.device_times}
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("baseline", "median", *(["on device"] if device_us else []), "95 % interval", "speed"):
        table.add_column(title, justify="left" if title == "baseline" else "right")
    table.add_column()
    eager_us = report.baselines[0][1].median_us if report.baselines else 0.0
    fastest = min(report.baselines, key=lambda pair: pair[1].median_us, default=None)
    for name, timing in (*report.baselines, *report.other_tf32):
        device = [time_text(device_us[name]) if name in device_us else "–"] if device_us else []
        interval = f"{time_text(timing.low_us)} … {time_text(timing.high_us)}"
        mark = Text("fastest" if fastest and name == fastest[0] else "", style="dim")
        shown = BASELINE_NAMES.get(name, name), time_text(timing.median_us), *device, interval
        table.add_row(*shown, f"{eager_us / timing.median_us:.2f} ×", mark)
    return Group(task_line(task, report.device_name), table, *_notes(report))


def _notes(report: TaskReport) -> list[Text]:
    notes = [limit_line(report.roofline, report)] if report.roofline and is_shown(report.roofline) else []
    if report.measured:
        notes.append(Text(f"measured {report.measured}; a look at eager agrees", style="dim"))
    notes += [Text(line, style="dim") for line in conditions_lines(report.conditions)]
    notes += [
        Text(f"{BASELINE_NAMES.get(name, name)}: not measured: {why}", style="dim") for name, why in report.missing
    ]
    if report.isolation_note:
        notes.append(Text(f"isolation: {report.isolation.value} ({report.isolation_note})", style="dim"))
    if report.weak_check:
        notes.append(weak_check_line(report.weak_check))
    return notes


def conditions_lines(conditions: Conditions | None) -> list[str]:
    """What disturbed the measurement, when something did; what was seen beside."""
    if conditions is None:
        return []
    return [*_disturbance(conditions), *conditions.notes]


def _disturbance(conditions: Conditions) -> list[str]:
    """`timing was disturbed: another program used the cores`, and what was done about it."""
    num_left, num_rounds = conditions.num_disturbed, conditions.num_rounds
    if not conditions.num_repeated and not num_left:
        return []
    repeated = f"{conditions.num_repeated} rounds were measured again" if conditions.num_repeated else ""
    left = f"{'all' if num_left == num_rounds else num_left} of the {num_rounds} that count were still disturbed"
    clean = f"the {num_rounds} that count were not disturbed"
    parts = [part for part in (repeated, left if num_left else clean) if part]
    return [f"timing was disturbed: {conditions.why}", f"  {'; '.join(parts)}"]


LEAST_SHOWN_US = 0.05
"""A limit that would be shown as nearly nothing says nothing."""


def is_shown(limit: Roofline) -> bool:
    return limit.limit_us >= LEAST_SHOWN_US


LIMIT_WORDS = {
    "memory": "memory",
    "cache": "fits the cache: not bound by memory bandwidth",
    "compute": "compute",
}


def limit_text(limit: Roofline) -> str:
    """`61.0 µs (memory)`: the least time that this device needs, and what limits it."""
    return f"{time_text(limit.limit_us)} ({LIMIT_WORDS[limit.limited_by]})"


def limit_line(limit: Roofline, report: TaskReport) -> Text:
    """`limit 61.0 µs (memory), eager at 12 %`."""
    reached = [
        f"{BASELINE_NAMES.get(name, name)} at {percent_text(limit.share(timing.median_us))}"
        for name, timing in report.baselines
        if limit.share(timing.median_us) <= 1.0
    ]
    beaten = len(reached) < len(report.baselines)
    busy = ["measured under load and too low: a baseline is faster"] if beaten else []
    return Text(", ".join([f"limit {limit_text(limit)}", *reached, *busy]), style="dim")


def reached_text(share: float, limit: Roofline | None = None) -> str:
    """`74 % of the limit`, with a limit its time and kind too. No time beats a true limit."""
    what = "the limit" if limit is None else f"the limit of {limit_text(limit)}"
    if share > 1.0:
        return f"faster than {what}, which was measured under load and is too low"
    return f"{percent_text(share)} of {what}"


def percent_text(share: float) -> str:
    """`12 %`, and `0.3 %` where whole percents would say nothing."""
    return f"{share * 100:.{0 if share >= 0.02 else 1}f} %"


def weak_check_line(why: str) -> Text:
    """A task that cannot tell right from wrong is said plainly, with the result as well."""
    return Text(f"weak check: this task cannot tell right from wrong: {why}", style=f"bold {CAUTION}")
