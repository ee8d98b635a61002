"""`--python`: the module runs in the user's environment, which has torch and packages that kevin's own lacks,
and none of kevin's packages."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from cli_samples import Kevin

TORCH_NEEDS = (
    *("torch", "torchgen", "functorch", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "filelock"),
    *("fsspec", "typing_extensions.py", "numpy", "numpy.libs"),
)
MODULE = """import torch
from torch import nn
from only_here import FACTOR


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * FACTOR


def get_inputs():
    return [torch.randn(16, 32)]
"""
WRONG = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.9
"""


@pytest.fixture(scope="module")
def user_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with torch and the package `only_here`, and without typer, pydantic and the like."""
    place = tmp_path_factory.mktemp("user") / "env"
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.check_output([python, "-c", asked], text=True).strip())
    ours = Path(sysconfig.get_path("purelib"))
    for name in TORCH_NEEDS:
        if (ours / name).exists():
            (packages / name).symlink_to(ours / name)
    (packages / "only_here.py").write_text("FACTOR = 3.0\n")
    return python


def test_a_module_that_imports_what_only_the_user_s_environment_has_is_judged_there(
    kevin: Kevin, user_python: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text(MODULE)
    (tmp_path / "kernel.py").write_text(WRONG)
    done = kevin("check", "model.py", "kernel.py", "--device", "cpu", "--python", user_python, "--json", timeout_s=280)
    assert done.stdout, done.stderr
    assert json.loads(done.stdout)["outcome"] == "mismatch", done.stderr
    assert done.returncode == 1


def test_without_it_the_hint_names_the_option(kevin: Kevin, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODULE)
    done = kevin("optimize", "model.py", "--device", "cpu", "--python", sys.executable)
    assert done.returncode == 2
    assert "only_here" in done.stderr
    assert "--python" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_environment_without_torch_is_named(kevin: Kevin, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    (tmp_path / "model.py").write_text(MODULE)
    done = kevin("optimize", "model.py", "--device", "cpu", "--python", tmp_path / "bare" / "bin" / "python")
    assert done.returncode == 3
    assert "has no torch" in done.stderr
