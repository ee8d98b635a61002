"""Candidates in the styles of generated code: the thin way takes them, and honest errors stay errors.

The whole corpus is compiled by `make slow`; here one of each kind that once went another way.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kevin_cli.harness.build.build import BuildRequest, Built, build
from kevin_cli.harness.build.recorder import RECORDERS
from kevin_cli.types import DeviceKind, Tree

CANDIDATES = sorted((Path(__file__).resolve().parents[2] / "benchmarks/candidates").glob("*.py"))
QUICK = ("cuda_packed_accessor_lstm", "cpu_several_functions_map", "cpu_calls_torch_operators")
THIN_SHARE = 0.95


def uncontained(argv: Sequence[str], **_: Any) -> list[str]:
    return list(argv)


def built(path: Path, cache: Path) -> Built:
    device = DeviceKind(path.name.split("_")[0])
    request = BuildRequest(
        source=path.read_text(), digest="", python=sys.executable, device=device, init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"), timeout_s=280, cache=cache, contain=uncontained, capability=(9, 0),
    )  # fmt: skip
    try:
        return asyncio.run(build(request))
    finally:
        RECORDERS.close()


@pytest.mark.parametrize("name", QUICK)
def test_the_thin_way_takes_it(name: str, cache: Path) -> None:
    found = built(next(path for path in CANDIDATES if path.stem == name), cache)
    assert (found.status, found.report.way) == ("built", "thin"), found.log + found.report.note


def test_there_are_enough_candidates() -> None:
    failing = [path for path in CANDIDATES if "_fails_" in path.name]
    assert len(CANDIDATES) - len(failing) >= 40
    assert all(re.search(r'^"""', path.read_text()) for path in CANDIDATES)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_nearly_all_of_the_corpus_is_thin_and_what_fails_fails(tmp_path: Path) -> None:
    found = {path.stem: built(path, tmp_path) for path in CANDIDATES}
    wrong = {name: one.log for name, one in found.items() if (one.status == "failed") != ("_fails_" in name)}
    assert not wrong
    compiling = [one for one in found.values() if one.status == "built"]
    assert sum(one.report.way == "thin" for one in compiling) >= THIN_SHARE * len(compiling)
    assert all(one.report.way == "thin" for name, one in found.items() if "_fails_" in name)


CALLS = """
import gc, resource, sys, psutil, runpy, torch
sys.path.insert(0, sys.argv[2])
from kevin_cli.harness.worker.extensions import install
install(sys.argv[1])
names = runpy.run_path(sys.argv[1] + "/candidate.py")
torch.manual_seed(0)
model, inputs = names["ModelNew"](), names["get_inputs"]()
def call(times):
    with torch.no_grad():
        for _ in range(times):
            model(*inputs)
    gc.collect()
def tensors():
    return sum(torch.is_tensor(thing) for thing in gc.get_objects())
call(1000)
before, rss = tensors(), psutil.Process().memory_info().rss
call(10_000)
print(tensors() - before, psutil.Process().memory_info().rss - rss)
"""
LEAK_BYTES = 4 << 20
"""Ten thousand leaked handles of the smallest tensor would be more."""


def test_ten_thousand_calls_leak_nothing(cache: Path) -> None:
    folder = built(next(path for path in CANDIDATES if path.stem == "cpu_lists_and_optionals"), cache).directory
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run([sys.executable, "-c", CALLS, str(folder), root], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    num_tensors, num_bytes = map(int, done.stdout.split())
    assert num_tensors == 0
    assert num_bytes < LEAK_BYTES
