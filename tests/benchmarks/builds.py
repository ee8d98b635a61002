"""Source to library: our builds beside torch's own `load_inline`, on the same candidates in the same run.

    python tests/benchmarks/builds.py --device cpu --stock 3      # a few stock builds, all thin ones
    python tests/benchmarks/builds.py --device cuda --limit 9     # both ways for the first nine

Time is from the candidate's call of `load_inline` to the library or the error, for torch without and for
us with everything around it (recording included), torch already imported in both. Our cache is empty.
Both ways get the same flags of ours (`-O3 -march=native -fopenmp` on the CPU). With `--outputs` every
candidate that compiles is run both ways and the bytes of its result are compared.

Not measured: loading the module, which takes milliseconds, and what a busy machine does to either way.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from kevin_cli.harness.build.build import BuildRequest, Built, build  # noqa: E402
from kevin_cli.harness.build.recorder import RECORDERS  # noqa: E402
from kevin_cli.harness.build.toolchain import find  # noqa: E402
from kevin_cli.types import DeviceKind, Tree  # noqa: E402

CANDIDATES = Path(__file__).resolve().parent / "candidates"
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
    stock_s: float | None = None
    stock_failed: bool | None = None
    same_output: bool | None = None
    detail: str = ""

    @property
    def ratio(self) -> float | None:
        return self.stock_s / self.thin_s if self.stock_s is not None else None


def uncontained(argv: Sequence[str], **_: Any) -> list[str]:
    return list(argv)


async def thin(path: Path, device: str, cache: Path) -> Built:
    """Build with a recorder that already waits, as in a running judge."""
    request = BuildRequest(
        source=path.read_text(), digest="", python=sys.executable, device=DeviceKind(device), init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"), timeout_s=600, cache=cache, contain=uncontained,
        capability=(9, 0) if device == "cuda" else None,
    )  # fmt: skip
    for spare in RECORDERS.waiting[request.python, request.cache, request.contain]:
        await spare.warm()
    return await build(request)


def stock(path: Path, device: str, outputs: bool) -> dict[str, Any]:
    """torch's own way, in a fresh process with a fresh folder."""
    with tempfile.TemporaryDirectory(prefix="kevin-stock-") as folder:
        env = {**os.environ, "TORCH_EXTENSIONS_DIR": folder}
        argv = [sys.executable, "-c", STOCK, str(path), device, "1" if outputs else "0"]
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False, cwd=folder)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def thin_output(built: Built, device: str) -> str:
    argv = [sys.executable, "-c", THIN_RUN, str(built.directory), device, str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip()[-300:]


def measure(path: Path, arguments: argparse.Namespace, cache: Path, with_stock: bool) -> Row:
    device = path.name.split("_")[0]
    built = asyncio.run(thin(path, device, cache))
    row = Row(name=path.stem, thin_s=built.report.wall_s, way=built.report.way, thin_failed=built.status == "failed")
    if not with_stock:
        return row
    outputs = arguments.outputs and built.status == "built"
    other = stock(path, device, outputs)
    mine = thin_output(built, device) if outputs else ""
    return Row(
        name=row.name, thin_s=row.thin_s, way=row.way, thin_failed=row.thin_failed, stock_s=other["wall_s"],
        stock_failed=other["failed"], same_output=(mine == other["output"]) if outputs else None,
        detail=f"{mine} != {other['output']}" if outputs and mine != other["output"] else "",
    )  # fmt: skip


def line(row: Row) -> str:
    stock_s = f"{row.stock_s:8.1f}" if row.stock_s is not None else "       -"
    ratio = f"{row.ratio:7.1f}" if row.ratio is not None else "      -"
    ending = "error" if row.thin_failed else "library"
    if row.stock_failed is not None and row.stock_failed != row.thin_failed:
        ending += " (the other way differs)"
    same = {None: "", True: "equal", False: "DIFFERENT"}[row.same_output]
    return f"{row.name:32s} {row.thin_s:8.2f} {stock_s} {ratio}  {row.way:5s} {ending:8s} {same} {row.detail}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda", "both"], default="both")
    parser.add_argument("--limit", type=int, default=100, help="candidates at most")
    parser.add_argument("--stock", type=int, default=100, help="stock builds at most, spread over the candidates")
    parser.add_argument("--outputs", action="store_true", help="run what compiles both ways and compare")
    parser.add_argument("--only", default="", help="part of a candidate's name")
    arguments = parser.parse_args()
    chain = find(sys.executable)
    print(f"# {time.strftime('%Y-%m-%d')} · {platform.processor() or platform.machine()} · torch {chain.torch_version}"
          f" · {chain.cxx_version} · nvcc {chain.nvcc_version} · {' '.join(sys.argv)}")  # fmt: skip
    wanted = ("cpu", "cuda") if arguments.device == "both" else (arguments.device,)
    found = [p for p in sorted(CANDIDATES.glob("*.py")) if p.name.split("_")[0] in wanted and arguments.only in p.name]
    order = sorted(found, key=lambda p: hashlib.sha256(p.name.encode()).digest())[: arguments.limit]
    with tempfile.TemporaryDirectory(prefix="kevin-builds-", ignore_cleanup_errors=True) as folder:
        rows = run(order, arguments, Path(folder))
    summarise(rows)


def run(order: Sequence[Path], arguments: argparse.Namespace, cache: Path) -> list[Row]:
    print(f"{'candidate':32s} {'ours s':>8s} {'torch s':>8s} {'ratio':>7s}  way   ends in")
    RECORDERS.refill(sys.executable, cache, uncontained)
    rows = []
    for index, path in enumerate(order):
        rows.append(measure(path, arguments, cache, index < arguments.stock))
        print(line(rows[-1]), flush=True)
    RECORDERS.close()
    return rows


def summarise(rows: Sequence[Row]) -> None:
    compiling = [row for row in rows if not row.thin_failed]
    print(f"median ours {statistics.median(row.thin_s for row in rows):.2f} s over {len(rows)} candidates; "
          f"thin way for {sum(r.way == 'thin' for r in compiling)} of {len(compiling)} that compile")  # fmt: skip
    both = [row for row in rows if row.stock_s is not None and row.ratio is not None]
    if both:
        print(f"median torch {statistics.median(r.stock_s or 0 for r in both):.1f} s, "
              f"median ratio {statistics.median(r.ratio or 0 for r in both):.1f} over {len(both)}")  # fmt: skip


if __name__ == "__main__":
    main()
