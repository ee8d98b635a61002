"""Baselines of an earlier run: found for the same task, place and versions, used only when eager agrees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kevin_cli.harness import known
from kevin_cli.types import (
    Conditions,
    Contract,
    DeviceKind,
    Target,
    Task,
    TaskReport,
    TensorSpec,
    Timing,
    Tree,
)

SPEC = TensorSpec(shape=(4,), dtype="float32", strides=(1,))
TASK = Task(
    name="sample",
    digest="0" * 64,
    target=Target(path="/sample.py", class_name="Model", python="python"),
    source="",
    init=Tree(kind="tuple"),
    init_keywords=Tree(kind="dict"),
    inputs=Tree(kind="tuple", items=(Tree(kind="tensor", index=0),)),
    outputs=Tree(kind="tensor", index=0),
    output_specs=(SPEC,),
    parameters=(),
    contract=Contract(device=DeviceKind.CUDA, inputs=(SPEC,)),
    graph=None,
)
EAGER = Timing(median_us=100.0, low_us=99.0, high_us=101.0, num_samples=24)
REPORT = TaskReport(
    baselines=(("eager", EAGER),),
    noise_floor=0.01,
    device_name="a device",
    versions=(("torch", "2.11"),),
    device_times=(("eager", EAGER),),
    conditions=Conditions(num_rounds=24, clocks_mhz=(1900, 1980)),
)
NAMES = ("eager", "compile")


def test_what_was_measured_is_found_again_with_its_date(tmp_path: Path) -> None:
    place = known.place_of(tmp_path, TASK, REPORT, NAMES)
    known.store(place, REPORT)
    found = known.load(place)
    assert found is not None
    assert found.report == REPORT
    assert found.measured.startswith("20")
    assert {path.suffix for path in place.parent.iterdir()} <= {".json", ".lock"}, "nothing half-written is left"


@pytest.mark.parametrize(
    ("task", "report", "names"),
    [
        (replace(TASK, digest="1" * 64), REPORT, NAMES),
        (TASK, replace(REPORT, device_name="another"), NAMES),
        (TASK, replace(REPORT, versions=(("torch", "2.13"),)), NAMES),
        (TASK, REPORT, ("eager",)),
    ],
)
def test_another_task_device_version_or_set_of_baselines_is_another_file(
    tmp_path: Path, task: Task, report: TaskReport, names: tuple[str, ...]
) -> None:
    assert known.place_of(tmp_path, task, report, names) != known.place_of(tmp_path, TASK, REPORT, NAMES)


def test_times_are_not_part_of_the_key(tmp_path: Path) -> None:
    faster = replace(REPORT, baselines=(("eager", replace(EAGER, median_us=50.0)),), noise_floor=0.5)
    assert known.place_of(tmp_path, TASK, faster, NAMES) == known.place_of(tmp_path, TASK, REPORT, NAMES)


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"measured": "x", "report": {"baselines": 3}})])
def test_a_file_that_is_no_measurement_is_none(tmp_path: Path, text: str) -> None:
    place = tmp_path / "broken.json"
    place.write_text(text)
    assert known.load(place) is None
    assert known.load(tmp_path / "missing.json") is None


@pytest.mark.parametrize(
    ("today_us", "device", "agrees"),
    [
        (105.0, DeviceKind.CUDA, True),
        (110.0, DeviceKind.CUDA, False),
        (90.0, DeviceKind.CUDA, False),
        (120.0, DeviceKind.CPU, True),
        (140.0, DeviceKind.CPU, False),
    ],
)
def test_a_machine_on_which_eager_takes_another_time_is_measured_anew(
    today_us: float, device: DeviceKind, agrees: bool
) -> None:
    assert known.agrees(known.Kept(measured="2026-11-30", report=REPORT), today_us, device) is agrees
