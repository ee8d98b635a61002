"""The embedded proposer on forty tasks of KernelBench, levels 1 and 2, with the whole judge: rows that are dated.

    git clone https://github.com/ScalingIntelligence/KernelBench ../KernelBench     # beside the project, never in it
    python tests/benchmarks/kernelbench.py ../KernelBench --device cuda --jobs 4 --sitting 420   # again until done

Every task is one `kevin optimize --json` under each of the rules asked for. Rows are kept in
`tests/benchmarks/results/kernelbench_<device>.json` as they come; a later sitting goes on with those that are
missing. Under `library` a task counts only when own kernels carry a fifth of the device time. The list is fixed and
was drawn by family, in about the shares that the two levels have; it is no claim about the other tasks.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RULES = ("library", "kernels")
OWN_SHARE = 0.2
"""Of the device time, that own kernels have to carry under `library`."""
REPORTED = (0, 1, 5, 6)
"""Exit codes of `kevin optimize` that come with an object on stdout."""
NOT_MEASURED = "not measured"
FORTY = (
    *("level1/1_Square_matrix_multiplication_", "level1/3_Batched_matrix_multiplication"),
    *("level1/4_Matrix_vector_multiplication_", "level1/12_Matmul_with_diagonal_matrices_"),
    *("level1/26_GELU_", "level1/29_Softplus", "level1/88_MinGPTNewGelu"),
    *("level1/23_Softmax", "level1/24_LogSoftmax"),
    *("level1/34_InstanceNorm", "level1/36_RMSNorm_", "level1/39_L2Norm_", "level1/40_LayerNorm"),
    *("level1/42_Max_Pooling_2D", "level1/45_Average_Pooling_2D"),
    *("level1/47_Sum_reduction_over_a_dimension", "level1/51_Argmax_over_a_dimension"),
    *("level1/82_conv_depthwise_2D_square_input_square_kernel", "level1/89_cumsum", "level1/95_CrossEntropyLoss"),
    *("level2/12_Gemm_Multiply_LeakyReLU", "level2/29_Matmul_Mish_Mish", "level2/37_Matmul_Swish_Sum_GroupNorm"),
    *("level2/62_Matmul_GroupNorm_LeakyReLU_Sum", "level2/76_Gemm_Add_ReLU", "level2/86_Matmul_Divide_GELU"),
    *("level2/88_Gemm_GroupNorm_Swish_Multiply_Swish", "level2/99_Matmul_GELU_Softmax"),
    *("level2/4_Conv2d_Mish_Mish", "level2/17_Conv2d_InstanceNorm_Divide"),
    *("level2/35_Conv2d_Subtract_HardSwish_MaxPool_Mish", "level2/57_Conv2d_ReLU_HardSwish"),
    *("level2/69_Conv2d_HardSwish_ReLU", "level2/85_Conv2d_GroupNorm_Scale_MaxPool_Clamp"),
    *("level2/2_ConvTranspose2d_BiasAdd_Clamp_Scaling_Clamp_Divide",),
    *("level2/16_ConvTranspose2d_Mish_Add_Hardtanh_Scaling",),
    *("level2/7_Conv3d_ReLU_LeakyReLU_GELU_Sigmoid_BiasAdd", "level2/23_Conv3d_GroupNorm_Mean"),
    *("level2/48_Conv3d_Scaling_Tanh_Multiply_Sigmoid", "level2/26_ConvTranspose3d_Add_HardSwish"),
)

Row = dict[str, Any]
Key = tuple[str, str]


def main() -> int:
    arguments = parse()
    place = arguments.rows or HERE / "results" / f"kernelbench_{arguments.device}.json"
    wanted = [(task, rules) for task in arguments.tasks or FORTY for rules in arguments.rules or RULES]
    missing = [key for key in wanted if arguments.again or not is_measured(place, key)]
    deadline = time.monotonic() + arguments.sitting
    lanes = ThreadPoolExecutor(arguments.jobs)
    try:
        for done in as_completed([lanes.submit(measured_before, deadline, key, arguments) for key in missing]):
            if (row := done.result()) is not None:
                store(place, row)
                print(line(row), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: what runs is waited for; rows so far are kept", file=sys.stderr)
        return 130
    finally:
        lanes.shutdown(cancel_futures=True)
    rows = [row for row in held(place) if key_of(row) in wanted]
    print("\n".join(summary(rows, len(arguments.tasks or FORTY))))
    print(f"{sum(not is_measured(place, key) for key in wanted)} of {len(wanted)} left", file=sys.stderr)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path, help="a clone of KernelBench")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="level1/23_Softmax; default: the forty")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--rules", action="append", choices=RULES, help="default: both")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1, help="tasks at once; keep 1 on the CPU")
    parser.add_argument("--sitting", type=float, default=math.inf, metavar="S", help="begin no task after so long")
    parser.add_argument(
        "--task-timeout", type=float, default=math.inf, metavar="S", help="give a task up after so long"
    )
    parser.add_argument("--again", action="store_true", help="measure again what has a row")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="where rows are kept")
    arguments = parser.parse_args()
    for task in arguments.tasks or FORTY:
        if not source(arguments.clone, task).is_file():
            parser.error(f"{source(arguments.clone, task)} is not there")
    return arguments


def source(clone: Path, task: str) -> Path:
    return clone / "KernelBench" / f"{task}.py"


# --- one task ----------------------------------------------------------------------------------------


def measured_before(deadline: float, key: Key, arguments: argparse.Namespace) -> Row | None:
    """`None` when the sitting is over."""
    return None if time.monotonic() >= deadline else measure(key, arguments)


def measure(key: Key, arguments: argparse.Namespace) -> Row:
    task, rules = key
    kevin = Path(sys.executable).parent / "kevin"
    with tempfile.TemporaryDirectory() as out:
        command = [str(kevin), "optimize", str(source(arguments.clone, task)), "--device", arguments.device]
        command += ["--rules", rules, "--baseline", "eager", "--turns", str(arguments.turns), "--trajectories", "1"]
        command += ["--json", "-q", "--out", out]
        code, text = ran(command, arguments.task_timeout)
    row: Row = {"task": task, "rules": rules, "date": date.today().isoformat(), "turns": arguments.turns}
    if code == -signal.SIGINT or code == 130:
        note = "interrupted" if math.isinf(arguments.task_timeout) else f"not finished in {arguments.task_timeout:g} s"
        return row | {"outcome": NOT_MEASURED, "note": note}
    if code not in REPORTED or not text.strip():
        return row | {"outcome": NOT_MEASURED, "note": f"kevin optimize ended with exit code {code}"}
    return row | row_of(json.loads(text))


def ran(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Exit code and stdout; what takes too long is interrupted, as by Ctrl-C, so that nothing stays behind."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            text, _ = process.communicate(timeout=None if math.isinf(timeout_s) else timeout_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.communicate()
            return 130, ""
        return process.returncode, text


def row_of(answer: dict[str, Any]) -> Row:
    """What the run's record says of its best correct turn; the second verdict on it where there is one."""
    run = Path(answer["run"]) if answer.get("run") else None
    verdict = best_verdict(run) if run else None
    report = (json.loads((run / "run.json").read_text())["report"] or {}) if run else {}
    speedup = answer["speedup"]
    if speedup["vs_eager"] is None and verdict is not None:
        speedup = {"vs_eager": against(verdict, "eager"), "vs_fastest": slowest_gain(verdict)}
    return {
        "outcome": answer["outcome"],
        "note": answer.get("note") or "",
        "is_correct": verdict is not None,
        "vs_eager": speedup["vs_eager"],
        "vs_fastest": speedup["vs_fastest"],
        "own_share": own_share(verdict),
        "weak_check": answer["weak_check"],
        "device_name": report.get("device_name", ""),
        "versions": dict(report.get("versions", [])),
    }


def best_verdict(run: Path) -> dict[str, Any] | None:
    """That of the fastest correct turn."""
    lines = (run / "turns.jsonl").read_text().splitlines() if (run / "turns.jsonl").exists() else []
    verdicts = [json.loads(text)["turn"]["verdict"] for text in lines]
    correct = [verdict for verdict in verdicts if verdict["outcome"] == "correct"]
    return max(correct, key=lambda verdict: (against(verdict, "eager") or {"median": 0.0})["median"], default=None)


def against(verdict: dict[str, Any], baseline: str) -> dict[str, float] | None:
    for item in verdict.get("comparisons", []):
        if item["baseline"] == baseline:
            return {name: item[name] for name in ("median", "low", "high")}
    return None


def slowest_gain(verdict: dict[str, Any]) -> dict[str, float] | None:
    """Against the fastest baseline: the least of the ratios."""
    found = [against(verdict, item["baseline"]) for item in verdict.get("comparisons", [])]
    return min((item for item in found if item), key=lambda item: item["median"], default=None)


def own_share(verdict: dict[str, Any] | None) -> float | None:
    """Own kernels' share of the device time; `None` where nothing was profiled."""
    seen = (verdict or {}).get("watched") or {}
    total = seen.get("own_ns", 0) + seen.get("other_ns", 0)
    return seen["own_ns"] / total if total else None


# --- rows --------------------------------------------------------------------------------------------


def held(place: Path) -> list[Row]:
    rows: list[Row] = json.loads(place.read_text())["rows"] if place.exists() else []
    return rows


def key_of(row: Row) -> Key:
    return row["task"], row["rules"]


def is_measured(place: Path, key: Key) -> bool:
    return any(key_of(row) == key and row["outcome"] != NOT_MEASURED for row in held(place))


def store(place: Path, row: Row) -> None:
    """Replace the row; the file is whole after every task."""
    rows = [other for other in held(place) if key_of(other) != key_of(row)] + [row]
    place.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"rows": sorted(rows, key=lambda item: (item["rules"], item["task"]))}, indent=1) + "\n"
    fresh = place.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(place)


def counts(row: Row) -> bool:
    """Whether it is right, and by kernels of its own; a share that could not be profiled does not hold it back."""
    if not row.get("is_correct"):
        return False
    share = row.get("own_share")
    return row["rules"] == "kernels" or share is None or share >= OWN_SHARE


def line(row: Row) -> str:
    ratios = [(row.get(name) or {}).get("median") for name in ("vs_eager", "vs_fastest")]
    words = " ".join("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
    share = row.get("own_share")
    own = "" if share is None else f" own {100 * share:.0f} %"
    return f"{row['task']} [{row['rules']}] {row['outcome']} {words}{own} {row['note']}"


def summary(rows: Sequence[Row], num_tasks: int) -> list[str]:
    lines = []
    for rules in RULES:
        found = [row for row in rows if row["rules"] == rules and row["outcome"] != NOT_MEASURED]
        if not found:
            continue
        right = [row for row in found if counts(row)]
        eager, fastest = (
            sum((row.get(name) or {"median": 0.0})["median"] > 1.0 for row in right)
            for name in ("vs_eager", "vs_fastest")
        )
        dates = sorted({row["date"] for row in found})
        lines.append(
            f"{rules}: {len(found)} of {num_tasks} measured ({dates[0]} to {dates[-1]}), "
            f"{sum(bool(row.get('is_correct')) for row in found)} correct, {len(right)} by own kernels, "
            f"fast_1 {eager}/{len(found)} against eager and {fastest}/{len(found)} against the fastest "
            f"(medians; {sum(row['outcome'] == 'faster' for row in right)} are faster than eager beyond the noise)"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
