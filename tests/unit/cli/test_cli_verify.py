"""`kevin verify` on a package that was judged for real, whole and after each of its claims was broken."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_samples import Kevin

from kevin_cli.commands.verify import speed_part, weak_check_part
from kevin_cli.harness.judge import LocalJudge
from kevin_cli.harness.judge_settings import JudgeSettings
from kevin_cli.package.write import write
from kevin_cli.tasks import lower, parse_target
from kevin_cli.types import Candidate, Comparison, DeviceKind, Outcome, Timing, Verdict

MODULE = """import torch
from constants import TIMES
from torch import nn


class Slow(nn.Module):
    def forward(self, x):
        for _ in range(TIMES):
            x = torch.relu(x)
        return x * 2.0


def get_inputs():
    return [torch.randn(64, 256)]
"""
KERNEL = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, min=0.0).mul(2.0)
"""

Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A package with the verdict of the real judge; its module imports a sibling."""
    home = tmp_path_factory.mktemp("judged")
    (home / "slow.py").write_text(MODULE)
    (home / "constants.py").write_text("TIMES = 50\n")
    return asyncio.run(_judge(home, cache))


async def _judge(home: Path, cache: Path) -> Path:
    target = parse_target(f"{home / 'slow.py'}:Slow")
    settings = JudgeSettings(
        device=DeviceKind.CPU, cache=cache, python=sys.executable, compiled_baseline=False, timing_budget_s=1.0
    )
    candidate = Candidate(source=KERNEL, digest=hashlib.sha256(KERNEL.encode()).hexdigest())
    async with LocalJudge(settings) as judge:
        task = lower(target, await judge.describe(target))
        report = await judge.open_task(task)
        verdict = await judge.judge(task, candidate)
    assert verdict.is_correct, verdict.detail
    return write(task, candidate, verdict, report, home / "out")


@pytest.fixture
def package(judged: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(judged, tmp_path / judged.name))


def change_record(package: Path, **changes: Any) -> None:
    file = package / "verification.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def change_kernel(package: Path) -> None:
    """Another program, which the record takes for the one that was verified."""
    wrong = KERNEL.replace("2.0", "2.5")
    (package / "kernel.py").write_text(wrong)
    digest = hashlib.sha256(wrong.encode()).hexdigest()
    files = json.loads((package / "verification.json").read_text())["files"]
    change_record(package, candidate=digest, files={**files, "kernel.py": digest})


def change_contract(package: Path) -> None:
    contract = json.loads((package / "verification.json").read_text())["contract"]
    contract["inputs"][0]["shape"] = [32, 256]
    change_record(package, contract=contract)


def change_constants(package: Path) -> None:
    (package / "reference" / "constants.py").write_text("TIMES = 1\n")


def test_a_package_that_holds_is_judged_again_from_its_own_files_alone(
    judged: Path, kevin: Kevin, tmp_path: Path
) -> None:
    done = kevin("verify", judged, "--json", "--junit", "verify.xml")
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    holds = {part["name"]: part["holds"] for part in found["parts"]}
    speed = holds.pop("speed")  # measured on a machine that may be busy: whatever it is, the exit code says it
    assert holds == dict.fromkeys(("content", "contract", "weak_check", "correct"), True)
    assert (done.returncode, found["broken"]) == ((0, []) if speed else (1, ["speed"]))
    assert (found["task"], found["device"], found["outcome"]) == ("slow", "cpu", "correct")
    assert found["recorded"]["versions"] == found["here"]["versions"]
    suite = ET.parse(tmp_path / "verify.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("5", str(len(found["broken"])))


@pytest.mark.parametrize(
    ("change", "broken", "words"),
    [
        (lambda package: (package / "kernel.py").open("a").write("#"), "content", "kernel.py is not what was verified"),
        (lambda package: (package / "_drop_in.py").unlink(), "content", "_drop_in.py is missing"),
        (change_constants, "content", "reference/constants.py is not what was verified"),
        (change_contract, "contract", "differs here in contract"),
        (change_kernel, "correct", "mismatch"),
    ],
)
def test_the_part_that_no_longer_holds_is_named(
    package: Path, kevin: Kevin, tmp_path: Path, change: Change, broken: str, words: str
) -> None:
    change(package)
    done = kevin("verify", package, "--junit", "verify.xml")
    assert done.returncode == 1, done.stderr
    first, *parts = done.stdout.splitlines()
    assert first == f"slow_kevin: no longer holds: {broken}"
    assert next(line for line in parts if words in line).split()[0] == broken
    assert next(line for line in parts if line.split()[0] == "speed").split()[1:3] == ["not", "checked"]
    failed = ET.parse(tmp_path / "verify.xml").findall("testsuite/testcase[failure]")
    assert [case.get("name") for case in failed] == [broken]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "nowhere is not there"),
        (("empty",), "empty is not a package of kevin"),
        (("slow_kevin", "--device", "cuda"), "slow_kevin is for cpu"),
        (("slow_kevin", "--python", "nowhere"), "not an interpreter"),
    ],
)
def test_what_can_not_be_verified_is_said(
    package: Path, kevin: Kevin, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    done = kevin("verify", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr


def test_a_damaged_record_is_no_package(package: Path, kevin: Kevin) -> None:
    change_record(package, verdict={"outcome": "perfect"})
    done = kevin("verify", package)
    assert (done.returncode, done.stdout) == (2, "")
    assert "damaged" in done.stderr


def test_a_package_without_a_copy_of_the_module_says_so(package: Path, kevin: Kevin) -> None:
    shutil.rmtree(package / "reference")
    done = kevin("verify", package)
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no copy of the module" in done.stderr
    assert "hint: " in done.stderr


# --- speed and the weak check, without measuring ---------------------------------------------------


def compared(baseline: str, median: float) -> Comparison:
    timing = Timing(median_us=10.0, low_us=9.0, high_us=11.0, num_samples=10)
    ends = {"low": median - 0.05, "high": median + 0.05, "noise_floor": 0.02}
    return Comparison(baseline=baseline, median=median, **ends, baseline_timing=timing, candidate_timing=timing)


def verdict_of(**medians: float) -> Verdict:
    comparisons = tuple(compared(name, median) for name, median in medians.items())
    return Verdict(outcome=Outcome.CORRECT, detail="correct", comparisons=comparisons)


@pytest.mark.parametrize(
    ("recorded", "here", "baseline", "holds"),
    [
        ({"eager": 2.0, "compile": 1.5}, {"eager": 1.4, "compile": 1.2}, "fastest", True),
        ({"eager": 2.0, "compile": 1.5}, {"eager": 1.4, "compile": 0.9}, "fastest", False),
        ({"eager": 2.0, "compile": 1.5}, {"eager": 1.4, "compile": 0.9}, "eager", True),
        ({"eager": 2.0, "compile": 0.7}, {"eager": 1.4, "compile": 0.7}, "fastest", True),
        ({"eager": 2.0}, {"eager": 1.03}, "fastest", False),
        ({"eager": 2.0, "compile": 1.5}, {"eager": 1.4}, "fastest", True),
        ({"compile": 1.5}, {"eager": 1.4}, "fastest", None),
        ({"eager": 1.0}, {"eager": 1.4}, "fastest", None),
    ],
)
def test_every_recorded_win_must_be_one_again(
    recorded: dict[str, float], here: dict[str, float], baseline: str, holds: bool | None
) -> None:
    part = speed_part(baseline, verdict_of(**recorded), verdict_of(**here))
    assert part.holds is holds
    for name in recorded:
        assert (name in part.detail) == (recorded[name] > 1.1 and baseline in ("fastest", name))


@pytest.mark.parametrize(
    ("recorded", "here", "holds"),
    [("", "", True), ("", "zeros pass", False), ("zeros pass", "zeros pass", True), ("zeros pass", "", True)],
)
def test_a_task_that_became_weak_verifies_nothing(recorded: str, here: str, holds: bool) -> None:
    assert weak_check_part(recorded, replace(verdict_of(), weak_check=here)).holds is holds
