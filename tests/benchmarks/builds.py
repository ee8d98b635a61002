"""Source to library: our builds beside torch's own `load_inline`, on the same candidates in the same run.

    python tests/benchmarks/builds.py --device cpu
    python tests/benchmarks/builds.py --device cuda-compile-only --time-limit 420
    python tests/benchmarks/builds.py --device cuda --jobs 8 --time-limit 420

Two thirds of the candidates compile, a third does not. Every candidate is built our way first, then torch's way,
`--jobs` at a time in both. Time is from the candidate's call of `load_inline` to the library or the error for
torch, and for us with everything around it (recording included); torch is imported already in both. Our cache is
empty but for the support library, which a machine compiles once. Both ways get the same flags of ours
(`-O3 -march=native -fopenmp` on the CPU). With `--outputs` every candidate that compiles is run both ways and the
bytes of its result are compared. `--time-limit` ends the stock builds that are not done by then; what was measured
is printed and written all the same, to `tests/benchmarks/results/`.

Not measured: loading the module, which takes milliseconds, and what a busy machine does to either way.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kevin_cli.harness.build.build import BuildRequest, Built, build, driver_capability  # noqa: E402
from kevin_cli.harness.build.recorder import RECORDERS  # noqa: E402
from kevin_cli.harness.build.recorder import start as start_recorder  # noqa: E402
from kevin_cli.harness.build.support import support_for  # noqa: E402
from kevin_cli.harness.build.toolchain import find, num_cpus  # noqa: E402
from kevin_cli.types import DeviceKind, Tree  # noqa: E402

CANDIDATES = Path(__file__).resolve().parent / "candidates"
RESULTS = Path(__file__).resolve().parent / "results"
STOCK = """
import hashlib, json, os, runpy, sys, time
path, device, outputs = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
import torch
import torch.utils.cpp_extension as cpp
if device == "cuda" and not torch.cuda.is_available():
    os.environ["TORCH_CUDA_ARCH_LIST"] = "9.0a"
    cpp._import_module_from_library = lambda *a, **k: None
original, spent, failed = cpp.load_inline, [], []
def timed(*args, **kwargs):
    if device == "cpu":
        ours = ["-O3", "-march=native", "-fopenmp"]
        kwargs["extra_cflags"] = ours + list(kwargs.get("extra_cflags") or [])
        kwargs["extra_ldflags"] = ["-fopenmp", *(kwargs.get("extra_ldflags") or [])]
    start = time.perf_counter()
    try:
        return original(*args, **kwargs)
    except BaseException:
        failed.append(True)
        raise
    finally:
        spent.append(time.perf_counter() - start)
cpp.load_inline = timed
result = ""
try:
    names = runpy.run_path(path)
    if outputs:
        torch.manual_seed(0)
        with torch.no_grad():
            out = names["ModelNew"]()(*(x.to(device) for x in names["get_inputs"]()))
        result = hashlib.sha256(out.cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
except BaseException as error:
    if not failed:
        result = repr(error)[:200]
print(json.dumps({"wall_s": sum(spent), "failed": bool(failed), "output": result}))
"""
THIN_RUN = """
import hashlib, runpy, sys, torch
sys.path.insert(0, sys.argv[3])
from kevin_cli.harness.worker.extensions import install
install(sys.argv[1])
names = runpy.run_path(sys.argv[1] + "/candidate.py")
torch.manual_seed(0)
with torch.no_grad():
    out = names["ModelNew"]()(*(x.to(sys.argv[2]) for x in names["get_inputs"]()))
print(hashlib.sha256(out.cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One candidate, both ways; `None` where the stock way was not measured."""

    name: str
    thin_s: float
    way: str
    thin_failed: bool
    note: str = ""
    stock_s: float | None = None
    stock_failed: bool | None = None
    same_output: bool | None = None
    detail: str = ""

    @property
    def ratio(self) -> float | None:
        return self.stock_s / self.thin_s if self.stock_s is not None else None


def uncontained(argv: Sequence[str], **_: Any) -> list[str]:
    return list(argv)


def device_of(path: Path) -> str:
    return path.name.split("_")[0]


async def thin(path: Path, cache: Path) -> Built:
    """Build with a recorder that already waits, as in a running judge."""
    device = DeviceKind(device_of(path))
    request = BuildRequest(
        source=path.read_text(),
        digest="",
        python=sys.executable,
        device=device,
        init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"),
        timeout_s=600,
        cache=cache,
        contain=uncontained,
        capability=None if device is DeviceKind.CPU else driver_capability() or (9, 0),
    )
    return await build(request)


async def warm_up(cache: Path, jobs: int) -> None:
    """What a running judge has: the support library, and recorders that wait."""
    await support_for(find(sys.executable), cache)
    waiting = RECORDERS.waiting[sys.executable, cache, uncontained]
    waiting += [start_recorder(sys.executable, cache, uncontained) for _ in range(jobs - len(waiting))]
    await asyncio.gather(*(recorder.warm() for recorder in waiting))


async def all_thin(paths: Sequence[Path], cache: Path, jobs: int) -> dict[Path, Built]:
    found = {}
    for start in range(0, len(paths), jobs):
        batch = paths[start : start + jobs]
        await warm_up(cache, len(batch))
        for path, built in zip(batch, await asyncio.gather(*(thin(path, cache) for path in batch)), strict=True):
            found[path] = built
            print(f"  ours   {path.stem:32s} {built.report.wall_s:7.2f} s  {built.status}", flush=True)
    return found


def stock(path: Path, outputs: bool, deadline: float) -> dict[str, Any] | None:
    """torch's own way, in a fresh process with a fresh folder; `None` when the time ran out."""
    with tempfile.TemporaryDirectory(prefix="kevin-stock-") as folder:
        env = {**os.environ, "TORCH_EXTENSIONS_DIR": folder}
        argv = [sys.executable, "-c", STOCK, str(path), device_of(path), "1" if outputs else "0"]
        process = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
            cwd=folder,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None
    answer: dict[str, Any] = json.loads(printed.splitlines()[-1])
    print(f"  torch  {path.stem:32s} {answer['wall_s']:7.2f} s", flush=True)
    return answer


def thin_output(built: Built, device: str) -> str:
    argv = [sys.executable, "-c", THIN_RUN, str(built.directory), device, str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip()[-300:]


def row_of(path: Path, built: Built, other: dict[str, Any] | None, outputs: bool) -> Row:
    report = built.report
    row = Row(
        name=path.stem, thin_s=report.wall_s, way=report.way, thin_failed=built.status == "failed", note=report.note
    )
    if other is None:
        return row
    row = replace(row, stock_s=other["wall_s"], stock_failed=other["failed"])
    if not outputs or built.status != "built":
        return row
    mine = thin_output(built, device_of(path))
    same = mine == other["output"]
    return replace(row, same_output=same, detail="" if same else f"{mine} != {other['output']}")


def line(row: Row) -> str:
    stock_s = f"{row.stock_s:8.1f}" if row.stock_s is not None else "       -"
    ratio = f"{row.ratio:7.1f}" if row.ratio is not None else "      -"
    ending = "error" if row.thin_failed else "library"
    if row.stock_failed is not None and row.stock_failed != row.thin_failed:
        ending += " (the other way differs)"
    same = {None: "", True: "equal", False: "DIFFERENT"}[row.same_output]
    return f"{row.name:32s} {row.thin_s:8.2f} {stock_s} {ratio}  {row.way:5s} {ending:8s} {same} {row.detail}"


def choose(device: str, only: str, share: bool) -> list[Path]:
    """All that fail, and twice as many that compile; or all. The order is arbitrary and always the same."""
    kind = device.split("-")[0]
    found = [path for path in CANDIDATES.glob(f"{kind}_*.py") if only in path.name]
    found.sort(key=lambda path: hashlib.sha256(path.name.encode()).digest())
    if not share:
        return found
    failing = [path for path in found if "_fails_" in path.name]
    compiling = [path for path in found if "_fails_" not in path.name][: 2 * len(failing)]
    return sorted(failing + compiling, key=lambda path: hashlib.sha256(path.name.encode()).digest())


def arguments_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda", "cuda-compile-only"], default="cpu")
    parser.add_argument("--jobs", type=int, default=max(1, num_cpus() // 2), help="candidates at once, in both ways")
    parser.add_argument("--stock", type=int, default=1000, help="stock builds at most")
    parser.add_argument("--time-limit", type=float, default=3600, help="seconds for everything")
    parser.add_argument("--outputs", action="store_true", help="run what compiles both ways and compare")
    parser.add_argument("--all", action="store_true", help="every candidate of the device, not two thirds to one")
    parser.add_argument("--only", default="", help="part of a candidate's name")
    return parser.parse_args()


def main() -> None:
    arguments = arguments_of()
    deadline = time.monotonic() + arguments.time_limit
    chain = find(sys.executable)
    about = {
        "date": time.strftime("%Y-%m-%d %H:%M"), "device": arguments.device, "cpu": processor(), "num_cpus": num_cpus(),
        "torch": chain.torch_version, "compiler": chain.cxx_version, "nvcc": chain.nvcc_version,
        "jobs": arguments.jobs, "command": " ".join(["python", *sys.argv]),
    }  # fmt: skip
    print("# " + " · ".join(f"{name} {value}" for name, value in about.items()))
    paths = choose(arguments.device, arguments.only, not arguments.all)
    with tempfile.TemporaryDirectory(prefix="kevin-builds-", ignore_cleanup_errors=True) as folder:
        rows = run(paths, arguments, Path(folder), deadline)
    print(f"{'candidate':32s} {'ours s':>8s} {'torch s':>8s} {'ratio':>7s}  way   ends in")
    for row in rows:
        print(line(row))
    summary = summarise(rows)
    keep({**about, "summary": summary, "rows": [{**asdict(row), "ratio": row.ratio} for row in rows]})


def run(paths: Sequence[Path], arguments: argparse.Namespace, cache: Path, deadline: float) -> list[Row]:
    built = asyncio.run(all_thin(paths, cache, arguments.jobs))
    RECORDERS.close()
    outputs = arguments.outputs and arguments.device != "cuda-compile-only"
    chosen = paths[: arguments.stock]
    with ThreadPoolExecutor(arguments.jobs) as threads:
        others = dict(zip(chosen, threads.map(lambda path: stock(path, outputs, deadline), chosen), strict=True))
    return [row_of(path, built[path], others.get(path), outputs) for path in paths]


def processor() -> str:
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    compiling = [row for row in rows if not row.thin_failed]
    both = [row for row in rows if row.stock_s is not None and row.ratio is not None]
    summary = {
        "num_candidates": len(rows),
        "num_failing": len(rows) - len(compiling),
        "num_thin": sum(row.way == "thin" for row in compiling),
        "num_compiling": len(compiling),
        "median_ours_s": statistics.median(row.thin_s for row in rows),
        "num_both": len(both),
        "median_torch_s": statistics.median(row.stock_s or 0 for row in both) if both else None,
        "median_ratio": statistics.median(row.ratio or 0 for row in both) if both else None,
        "num_different": sum(row.same_output is False for row in rows),
    }
    for name, value in summary.items():
        print(f"{name:16s} {value:.2f}" if isinstance(value, float) else f"{name:16s} {value}")
    return summary


def keep(result: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"builds-{result['device']}-{time.strftime('%Y-%m-%d-%H%M')}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
