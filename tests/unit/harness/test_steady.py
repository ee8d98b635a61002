"""Every timed program of a CPU has its threads bound alike; what it starts by itself is free."""

import json
import os
import subprocess
import sys

import pytest

from kevin_cli.harness.steady import steady_environment

CORES = sorted(os.sched_getaffinity(0))
PROGRAM = """
import json, os, subprocess, sys, torch
from pathlib import Path
from kevin_cli.harness.steady import Places
places = Places()
a = torch.randn(4_000_000)
(a + a).sum()
threads = [sorted(os.sched_getaffinity(int(path.name))) for path in Path("/proc/self/task").iterdir()]
child = subprocess.run([sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"], capture_output=True)
places.settle()
print(json.dumps({
    "main": sorted(os.sched_getaffinity(0)), "threads": threads, "child": json.loads(child.stdout),
    "left": [name for name in ("OMP_PROC_BIND", "OMP_PLACES") if name in os.environ],
}))
"""


def test_what_the_user_set_stays():
    env = {"OMP_WAIT_POLICY": "active", "OMP_PLACES": "cores", "HOME": "/home"}
    assert steady_environment(env, bound=True) == env | {"OMP_PROC_BIND": "true"}


def test_nothing_is_bound_beside_a_gpu():
    assert steady_environment({}, bound=False) == {"OMP_WAIT_POLICY": "passive"}


@pytest.mark.skipif(len(CORES) < 2, reason="one core has no places to choose from")
def test_openmps_threads_have_a_core_each_and_everything_else_has_all():
    env = steady_environment({**os.environ, "OMP_NUM_THREADS": "2"}, bound=True)
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["main"], found["child"]) == (CORES, CORES)
    assert CORES[1:2] in found["threads"]
    assert found["left"] == []
