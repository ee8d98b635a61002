"""SIGKILL at a random moment of a build or of a run: nothing is left, and the next one works.

`KEVIN_KILLS` says how many (10; `make soak`: 100), `KEVIN_SEED` repeats a sequence; both are printed. The
test is the subreaper of what it starts, so a program that outlives its controller becomes its child and is seen.
"""

import contextlib
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]
TASK = ROOT / "tests/judge/tasks/scale_relu.py"
KERNEL = ROOT / "tests/judge/candidates/kernel.py"
EXAMPLE = ROOT / "kernels_examples/rms_norm/reference.py"
KEVIN = str(Path(sys.executable).with_name("kevin"))
PR_SET_CHILD_SUBREAPER = 36
GONE_WITHIN_S = 10.0
LONGEST_S = {"build": 3.0, "run": 12.0}
"""Within this a build or a run is over, or nearly, on a quiet machine."""
BUILD = """
import asyncio, sys
from pathlib import Path
from kevin_cli.harness.build.build import BuildRequest, build
from kevin_cli.harness.sandbox import Sandbox, interpreter_folders
from kevin_cli.types import DeviceKind, Tree
cache = Path(sys.argv[1])
sandbox = Sandbox.find().around(hidden=[cache], readable=interpreter_folders(sys.executable))
request = BuildRequest(
    source=Path(sys.argv[2]).read_text(), digest="", python=sys.executable, device=DeviceKind.CPU,
    init=Tree(kind="tuple"), init_keywords=Tree(kind="dict"), timeout_s=240, cache=cache, contain=sandbox.contain,
)
print(asyncio.run(build(request)).status)
"""


def be_subreaper():
    assert ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def reap():
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def command_line(process):
    """What a process runs; empty for one that has ended, even since it was listed."""
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else " ".join(process.cmdline())[:200] or process.name()
    except psutil.NoSuchProcess:
        return ""


def left_after(patience_s, before=frozenset()):
    """Command lines of the programs that are still there when the patience is over, without those of `before`:
    the tests of the same process that came first have judges of their own."""
    deadline = time.monotonic() + patience_s
    while True:
        reap()
        children = psutil.Process().children(recursive=True)
        alive = [line for child in children if child.pid not in before and (line := command_line(child))]
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.05)


class Ground:
    """One cache and one working folder for all kills."""

    def __init__(self, folder):
        self.folder, self.cache = folder, folder / "cache"
        self.cache.mkdir()
        own = {"PYTHONPATH": str(ROOT), "KEVIN_CACHE": str(self.cache), "KEVIN_RUNS": str(folder / "runs")}
        self.environment = {**os.environ, **own}

    def argv(self, kind, number):
        kernel = self.folder / "kernel.py"
        kernel.write_text(KERNEL.read_text() + f"\n# {number}\n")
        source = kernel.read_text().replace("torch/extension.h>", f"torch/extension.h>\n#define KILLED {number}", 1)
        kernel.write_text(source)
        if kind == "build":
            return [sys.executable, "-c", BUILD, str(self.cache), str(kernel)]
        return [KEVIN, "check", str(TASK), str(kernel), "--device", "cpu", "--json"]

    def start(self, kind, number, **options):
        return subprocess.Popen(self.argv(kind, number), cwd=self.folder, env=self.environment, text=True, **options)

    def finish(self, kind, number):
        """What a whole one prints."""
        with self.start(kind, number, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            return process.communicate(timeout=200)[0]

    def leftovers(self):
        """Private folders and shared memory."""
        private = [path for name in ("attempts", "scratch") for path in (self.cache / name).glob("*")]
        return private + [path for path in Path("/dev/shm").glob("*kevin*")]


def gpu_processes():
    """Process ids on the GPU, as NVML tells them; empty without one."""
    done = subprocess.run(
        ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    return set(done.stdout.split())


@pytest.mark.timeout(3600)
def test_a_kill_at_any_moment_leaves_nothing_and_the_next_one_works(tmp_path):
    seed = int(os.environ.get("KEVIN_SEED") or random.SystemRandom().randrange(10**6))
    num_kills = int(os.environ.get("KEVIN_KILLS", "10"))
    print(f"KEVIN_SEED={seed} KEVIN_KILLS={num_kills}")
    before = frozenset(child.pid for child in psutil.Process().children(recursive=True))
    be_subreaper()
    chance, ground = random.Random(seed), Ground(tmp_path)
    for number in range(num_kills):
        kind = "run" if number % 5 == 4 else "build"
        process = ground.start(kind, number, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.0, LONGEST_S[kind]))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert left_after(GONE_WITHIN_S, before) == [], f"after kill {number} ({kind}), seed {seed}"
    assert ground.finish("build", num_kills).strip() == "built"
    assert json.loads(ground.finish("run", num_kills))["outcome"] == "correct"
    assert left_after(GONE_WITHIN_S, before) == []
    assert ground.leftovers() == []


@pytest.mark.gpu
@pytest.mark.timeout(1200)
def test_a_killed_run_leaves_no_memory_on_the_gpu(tmp_path):
    seed = int(os.environ.get("KEVIN_SEED") or random.SystemRandom().randrange(10**6))
    print(f"KEVIN_SEED={seed}")
    be_subreaper()
    ground, before, chance = Ground(tmp_path), gpu_processes(), random.Random(seed)
    argv = [KEVIN, "optimize", str(EXAMPLE), "--device", "cuda", "--turns", "2", "--out", str(tmp_path)]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for number in range(5):
        process = subprocess.Popen(argv, cwd=tmp_path, env=ground.environment, **silent)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(2.0, 60.0))
        process.kill()
        process.wait()
        assert left_after(GONE_WITHIN_S) == [], f"after kill {number}, seed {seed}"
        assert gpu_processes() <= before
