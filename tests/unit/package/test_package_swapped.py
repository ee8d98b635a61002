"""A package put into the live modules of a user's own command, as `kevin optimize --auto` times it."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from package_samples import PYTHON_KERNEL, candidate_of

from kevin_cli.harness.user_command import reports, run_watched
from kevin_cli.package.write import write
from kevin_cli.types import Task, TaskReport, Verdict

SCRIPT = """
    import torch
    from torch import nn
    from scale import Scale
    net = nn.Sequential(nn.Identity(), Scale(16, 0.5), Scale(16, 7.0))
    with torch.no_grad():
        for _ in range(5):
            out = net(torch.ones(8, 16))
    assert out.sum() == 8 * 16 * 8.5, out
    print([type(part).__mro__[1].__name__ for part in net])
"""


@pytest.fixture
def package(task: Task, verdict: Verdict, report: TaskReport, tmp_path: Path) -> Path:
    (Path(task.target.path).parent / "serve.py").write_text(textwrap.dedent(SCRIPT))
    task = replace(task, attributes=(("__class__", "Scale"), ("offset", "0.5")))
    return write(task, candidate_of(PYTHON_KERNEL), verdict, report, tmp_path)


def ran(task: Task, folder: Path, packages: list[Path]) -> tuple[dict[str, Any], str]:
    folder.mkdir()
    plan = {"watch": "swap", "folder": str(folder), "packages": list(map(str, packages))}
    script = Path(task.target.path).parent / "serve.py"
    done = run_watched([sys.executable, str(script)], plan, 120)
    assert done.exit_code == 0, done.tail
    (report,) = reports(folder, "swap")
    return report, done.tail


def test_only_the_module_that_fits_gets_the_kernel_and_the_rest_of_the_run_is_the_same(
    task: Task, package: Path, tmp_path: Path
) -> None:
    report, printed = ran(task, tmp_path / "with", [package])
    assert report["swapped"] == ["1"]
    assert not report["faults"]
    assert "'DropIn', 'Module'" in printed
    assert (report["num_calls"], report["span_s"] > 0) == (4, True)


def test_without_packages_nothing_changes(task: Task, package: Path, tmp_path: Path) -> None:
    report, printed = ran(task, tmp_path / "without", [])
    assert (report["swapped"], report["num_calls"]) == ([], 4)
    assert "DropIn" not in printed


def test_a_package_that_does_not_import_is_told_and_the_run_goes_on(task: Task, package: Path, tmp_path: Path) -> None:
    (package / "__init__.py").write_text("raise RuntimeError('broken in two')")
    report, _ = ran(task, tmp_path / "broken", [package])
    assert report["swapped"] == []
    assert "broken in two" in report["faults"][0]
