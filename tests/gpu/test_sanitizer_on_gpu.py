"""compute-sanitizer over planted candidates whose outputs may be right: it finds what is wrong and nothing else.

Where the tool is missing or can't attach (a container that hides the GPU's debugging interface) kevin has to say so
with exit code 3; then the findings can't be asked for and the test is skipped with the reason.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

KEVIN = "from kevin_cli.app import main; main()"
HERE = Path(__file__).parent / "sanitizer"
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]


def checked(name):
    """The exit code and the object of `kevin check --sanitize`; skipped where this machine has no such tool."""
    command = [sys.executable, "-c", KEVIN, "check", str(HERE / "reference.py"), str(HERE / f"{name}.py")]
    command += ["--device", "cuda", "--sanitize", "--baseline", "eager", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        assert "compute-sanitizer" in done.stderr
        pytest.skip(done.stderr.strip().splitlines()[-2])
    return done.returncode, json.loads(done.stdout)


def test_a_kernel_without_a_fault_passes_every_tool():
    code, told = checked("with_barrier")
    assert (code, told["outcome"]) == (0, "correct")
    assert [one["tool"] for one in told["sanitized"]] == ["memcheck", "racecheck", "initcheck", "synccheck"]
    assert all(one["passed"] for one in told["sanitized"]), told["sanitized"]


@pytest.mark.parametrize(
    ("name", "tool", "kernel"),
    [("reads_beyond", "memcheck", "sum_rows_by_four"), ("no_barrier", "racecheck", "sum_row_unsynchronised")],
)
def test_what_the_outputs_do_not_show_is_found(name, tool, kernel):
    code, told = checked(name)
    assert (code, told["outcome"]) == (1, "mismatch")
    assert f"compute-sanitizer {tool}" in told["detail"]
    assert kernel in f"{told['detail']}\n{told['log']}"
