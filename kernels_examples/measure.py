"""Run `kevin optimize` on every example and write what came out, wins and losses alike.

    python kernels_examples/measure.py --device cpu [--baseline eager] [TASK ...] [-- MORE KEVIN OPTIONS]
    python kernels_examples/measure.py --device cuda --jobs 4 --missing --sitting 480   # again until nothing is missing

For each task the verified kernel is copied beside its reference (`kernel_cpu.py`, `kernel_cuda.py`; an older
one is removed when there is no win), the numbers go to `results/<device>.json`, and RESULTS.md is written
anew from all such files, after every task: a sitting may end at any time, and `--missing` goes on with the
tasks that have no row yet or whose reference has changed since. Every number is the judge's second verdict on
the winner, as `--json` reports it; nothing is measured here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
REPORTED = (0, 1, 5, 6)
"""Exit codes of `kevin optimize` that come with an object on stdout (or with nothing to optimise)."""

NOT_MEASURED = "not measured"

Row = dict[str, Any]


def main() -> int:
    arguments, extra = parse(sys.argv[1:])
    command = " ".join(["python kernels_examples/measure.py", *map(shlex.quote, sys.argv[1:])])
    path = RESULTS / f"{arguments.device}.json"
    lanes = ThreadPoolExecutor(arguments.jobs)
    deadline = time.monotonic() + arguments.sitting
    try:
        tasks = arguments.tasks or task_names()
        tasks = [task for task in tasks if not (arguments.missing and is_measured(path, task))]
        rows = [lanes.submit(measure_before, deadline, task, arguments, extra) for task in tasks]
        for done in as_completed(rows):
            row = done.result()
            if row is None:
                continue
            print(f"{row['task']}: {row['outcome']} {row['note']}", file=sys.stderr, flush=True)
            store(path, row | {"command": command})
            write_page()
    finally:
        lanes.shutdown(cancel_futures=True)
    left = [task for task in tasks if not is_measured(path, task)]
    print(f"{len(tasks) - len(left)} measured, {len(left)} left", file=sys.stderr)
    return 0


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    own, extra = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="default: all")
    parser.add_argument("--device", choices=["cpu", "cuda"], required=True)
    parser.add_argument("--baseline", choices=["eager", "fastest"], default="eager")
    help_text = "tasks at once: one starts and compiles while another holds the device; keep 1 on the CPU"
    parser.add_argument("--jobs", type=int, default=1, help=help_text)
    parser.add_argument("--missing", action="store_true", help="only tasks without a row for their present reference")
    help_text = "seconds after which no further task is begun; those that run are finished"
    parser.add_argument("--sitting", type=float, default=math.inf, metavar="S", help=help_text)
    arguments = parser.parse_args(own)
    if unknown := [task for task in arguments.tasks if task not in task_names()]:
        parser.error(f"no example {unknown[0]}; there are {', '.join(task_names())}")
    return arguments, extra


def task_names() -> list[str]:
    return sorted(path.parent.name for path in HERE.glob("*/reference.py"))


def reference_digest(task: str) -> str:
    return hashlib.sha256((HERE / task / "reference.py").read_bytes()).hexdigest()[:16]


def is_measured(path: Path, task: str) -> bool:
    """Whether there is a row for this task as it is now."""
    held = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = [row for row in held if row["task"] == task and row["outcome"] != NOT_MEASURED]
    return any(row.get("reference", reference_digest(task)) == reference_digest(task) for row in rows)


def measure_before(deadline: float, task: str, arguments: argparse.Namespace, extra: list[str]) -> Row | None:
    """`None` when the sitting is over."""
    if time.monotonic() >= deadline:
        return None
    return measure(task, arguments.device, arguments.baseline, extra) | {"reference": reference_digest(task)}


def measure(task: str, device: str, baseline: str, extra: list[str]) -> Row:
    """One `kevin optimize --json`, its kernel copied when it won."""
    kevin = Path(sys.executable).parent / "kevin"
    with tempfile.TemporaryDirectory() as out:
        command = [str(kevin), "optimize", str(HERE / task / "reference.py"), "--device", device]
        command += ["--baseline", baseline, "--json", "--out", out, *extra]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == 130:
            raise KeyboardInterrupt
        if done.returncode not in REPORTED or not done.stdout.strip():
            note = f"kevin optimize ended with exit code {done.returncode}"
            return {"task": task, "date": date.today().isoformat(), "outcome": NOT_MEASURED, "note": note}
        answer = json.loads(done.stdout)
        keep_kernel(answer.get("output"), HERE / task / f"kernel_{device}.py")
        return row_of(task, answer)


def keep_kernel(output: str | None, place: Path) -> None:
    if output:
        shutil.copyfile(Path(output) / "kernel.py", place)
    else:
        place.unlink(missing_ok=True)


def row_of(task: str, answer: dict[str, Any]) -> Row:
    report = run_report(answer.get("run"))
    return {
        "task": task,
        "date": date.today().isoformat(),
        "outcome": answer["outcome"],
        "note": answer.get("note") or "",
        "speedup": answer["speedup"],
        "baseline": answer["baseline"],
        "policy": answer["policy"],
        "turns": answer["turns"],
        "isolation": answer["isolation"],
        "weak_check": answer["weak_check"],
        "median_us": {name: timing["median_us"] for name, timing in report.get("baselines", [])},
        "device_name": report.get("device_name", ""),
        "versions": dict(report.get("versions", [])),
    }


def run_report(run: str | None) -> dict[str, Any]:
    """What the judge found out about the task before the search, from the run's record."""
    if not run:
        return {}
    report = json.loads((Path(run) / "run.json").read_text())["report"]
    return report or {}


def store(path: Path, row: Row) -> None:
    """Replace the task's row; the file is complete after every task, so a long sitting can be cut short."""
    held = json.loads(path.read_text()) if path.exists() else {"rows": []}
    rows = [other for other in held["rows"] if other["task"] != row["task"]] + [row]
    path.parent.mkdir(exist_ok=True)
    text = json.dumps({"rows": sorted(rows, key=lambda r: str(r["task"]))}, indent=1)
    path.write_text(text + "\n")


# --- the page --------------------------------------------------------------------------------------


def write_page() -> None:
    parts = ["# Measured results", "", "Written by `kernels_examples/measure.py`; do not edit.", ""]
    for path in sorted(RESULTS.glob("*.json")):
        parts += section(path.stem, json.loads(path.read_text()))
    (HERE / "RESULTS.md").write_text("\n".join(parts).rstrip() + "\n")


def section(device: str, held: dict[str, Any]) -> list[str]:
    rows = held["rows"]
    dates = sorted({row["date"] for row in rows})
    names = sorted({row["device_name"] for row in rows if row.get("device_name")})
    versions: dict[str, str] = next((row["versions"] for row in rows if row.get("versions")), {})
    return [
        f"## {device}: {', '.join(names) or 'device unknown'}",
        "",
        f"{' to '.join(dict.fromkeys([dates[0], dates[-1]]))} · "
        + ", ".join(f"{name} {version}" for name, version in versions.items()),
        "",
        *(f"    {command}" for command in sorted({row["command"] for row in rows})),
        "",
        "A ratio is baseline time / kernel time: above 1 the kernel is faster. In brackets the 95 % interval.",
        "",
        "| task | eager µs | compiled µs | against eager | against compiled | result | kernel |",
        "|---|--:|--:|--:|--:|---|---|",
        *(line(device, row) for row in rows),
        "",
        summary(rows),
        "",
    ]


def line(device: str, row: Row) -> str:
    times, speedup = row.get("median_us", {}), row.get("speedup") or {}
    kernel = f"{row['task']}/kernel_{device}.py"
    cells = [
        f"[{row['task']}]({row['task']}/reference.py)",
        time_text(times.get("eager")),
        time_text(times.get("compile")),
        ratio_text(speedup.get("vs_eager")),
        ratio_text(speedup.get("vs_compiled")),
        " ".join(part for part in (row["outcome"].replace("_", " "), row["note"] and f"({row['note']})") if part),
        f"[source]({kernel})" if (HERE / kernel).exists() else "",
    ]
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def time_text(median_us: float | None) -> str:
    return "" if median_us is None else f"{median_us:,.0f}"


def ratio_text(found: dict[str, float] | None) -> str:
    return f"{found['median']:.2f} [{found['low']:.2f}, {found['high']:.2f}]" if found else ""


def summary(rows: list[Row]) -> str:
    """How many won, and the geometric mean over all tasks, those without a kernel counted as 1."""
    baseline = next((row["baseline"] for row in rows if row.get("baseline")), "eager")
    won = sum(row["outcome"] == "faster" for row in rows)
    logs = []
    for row in rows:
        found = (row.get("speedup") or {}).get("vs_eager") if row["outcome"] == "faster" else None
        logs.append(math.log(found["median"]) if found else 0.0)
    mean = math.exp(sum(logs) / len(logs))
    return (
        f"{won} of {len(rows)} are faster than {'eager' if baseline == 'eager' else 'the fastest baseline'}; geometric "
        f"mean against eager over all {len(rows)}, with 1 where nothing was written: {mean:.2f}."
    )


if __name__ == "__main__":
    sys.exit(main())
