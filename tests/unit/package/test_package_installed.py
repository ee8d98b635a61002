"""Packages installed by pip into a clean environment: two of modules with one name, and gone again."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from package_samples import PYTHON_KERNEL, Import

from kevin_cli.tasks.names import task_name
from kevin_cli.types import Task

sys.path.append(str(Path(__file__).parents[2] / "slow"))
import clean_environment

USE = """
import importlib.util, sys, torch
import scale_kevin, other_scale_kevin

assert importlib.util.find_spec("kevin_cli") is None
x = torch.randn(8, 16)
with torch.no_grad():
    for module, factor in ((scale_kevin, 1), (other_scale_kevin, 2)):
        assert module.__file__.startswith(sys.prefix), module.__file__
        scale = module.Scale(16, 0.5).eval()
        for call in (scale, torch.compile(scale, backend="aot_eager", fullgraph=True)):
            torch.testing.assert_close(call(x), factor * x + 0.5)
        assert sys.modules[module.__name__ + ".kernel"].ModelNew.calls == 2
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_modules_of_one_name_are_installed_side_by_side_and_leave_nothing(
    package: Import, task: Task, tmp_path: Path
) -> None:
    """Each has the class `Scale` in a file `scale.py`; `--name` tells their packages apart."""
    named = replace(task, name=task_name(replace(task.target, name="other_scale")))
    folders = [Path(str(package().__file__)).parent]
    file = Path(task.target.path)
    file.write_text(file.read_text().replace("return x * self.weight", "return 2 * x * self.weight"))
    twice = PYTHON_KERNEL.replace("x, self.gain)", "2 * x, self.gain)")
    folders.append(Path(str(package(named, twice).__file__)).parent)
    assert [folder.name for folder in folders] == ["scale_kevin", "other_scale_kevin"]

    home = tmp_path / "venv"
    python = clean_environment.make(home)
    empty = clean_environment.listing(home)
    clean_environment.install(python, *(clean_environment.wheel(folder, tmp_path) for folder in folders))
    environment = {"PATH": "/usr/bin:/bin", "KEVIN_GUARD": "strict", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [python, "-c", USE], cwd=home, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    for folder in folders:
        clean_environment.uninstall(python, folder.name)
    assert clean_environment.listing(home) == empty
    assert not (tmp_path / "cache").exists()
