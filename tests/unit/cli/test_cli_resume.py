"""A run of the real command that is killed, gone on with, reported and judged again, in a repository."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from cli_samples import KEVIN, Kevin, environment
from test_cli_runs import MODULE, RIGHT, WRONG, answer, only_object, script, wait_for_first_turn

NUM_TURNS = 3


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.timeout(1200)
def test_a_killed_run_goes_on_and_can_be_read_afterwards(kevin: Kevin, tmp_path: Path, cache: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "double_relu.py").write_text(MODULE)
    model = script(tmp_path, *[answer(f"# turn {n}\n{WRONG if n else RIGHT}") for n in range(NUM_TURNS)])
    options = ["--device", "cpu", "--model", model, "--turns", str(NUM_TURNS), "--trajectories", "1"]
    process = subprocess.Popen(
        [str(KEVIN), "optimize", "double_relu.py", *options],
        cwd=tmp_path,
        env=environment(tmp_path, {"KEVIN_CACHE": str(cache)}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_first_turn(tmp_path)
    process.kill()
    process.wait(30)
    (listed,) = only_object(kevin("runs", "list", "--json"))["runs"]
    assert listed["state"] == "killed"

    found = only_object(kevin("runs", "resume", listed["id"].rsplit("-", 2)[1], "--json", timeout_s=550))
    assert (found["turns"], found["branch"]) == (NUM_TURNS, f"kevin/{listed['id']}")
    lines = [json.loads(line) for line in (Path(found["run"]) / "turns.jsonl").read_text().splitlines()]
    assert [line["turn"]["index"] for line in lines] == list(range(NUM_TURNS))
    subjects = git(tmp_path, "log", "--format=%s", "--reverse", found["branch"]).splitlines()
    assert [subject.split()[0] for subject in subjects[1:-1]] == ["1.1", "1.2", "1.3"]
    git(tmp_path, "fsck", "--strict")
    status = git(tmp_path, "status", "--porcelain").splitlines()
    assert [line for line in status if "kevin" in line and "_kevin/" not in line] == []

    report = only_object(kevin("report", "--json"))
    assert "<svg" in Path(report["html"]).read_text()
    replayed = kevin("runs", "replay", "--output-format", "junit", timeout_s=550)
    suite = ET.fromstring(replayed.stdout)
    assert (suite.attrib["tests"], suite.attrib["failures"]) == (str(NUM_TURNS), "0"), replayed.stderr
    differ = kevin("runs", "diff", f"{listed['id']}:1.1", f"{listed['id']}:1.2")
    assert differ.returncode == 1
    assert "-# turn 0" in differ.stdout
