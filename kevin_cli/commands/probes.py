"""What `kevin doctor` tries: each probe does the thing once, in a scratch folder, and says how it went.

Version numbers are shown where they help a reader; nothing is believed because of one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kevin_cli.harness.device import gpu_names, nvcc_path
from kevin_cli.harness.sandbox import Sandbox
from kevin_cli.show.findings import Finding
from kevin_cli.types import Isolation

PROBE_TIMEOUT_S = 120.0
MIN_FREE_BYTES = 2 << 30

CPP = """#include <omp.h>
#include <cstdio>
int main() {
  int count = 0;
#pragma omp parallel reduction(+ : count)
  count += 1;
  std::printf("%d", count);
}
"""
CUDA = (
    "__global__ void twice(float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }\n"
)
NINJA = "rule copy\n  command = cp $in $out\nbuild copied: copy source\n"
TORCH = """
import json, torch
found = {"version": torch.__version__, "cuda": torch.version.cuda, "sum": float(torch.arange(5.).sum())}
if torch.version.cuda and torch.cuda.is_available():
    found["capability"] = torch.cuda.get_device_capability()
    found["cuda_sum"] = float(torch.arange(5., device="cuda").sum())
print(json.dumps(found))
"""


def run(argv: Sequence[str], folder: Path) -> tuple[bool, str]:
    """Whether a program ended well, and the last line that it said."""
    try:
        done = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, errors="replace", timeout=PROBE_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        return False, f"{argv[0]} was not found"
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"{argv[0]}: {error}"
    said = (done.stdout if done.returncode == 0 else done.stderr + done.stdout).strip().splitlines()
    return done.returncode == 0, said[-1] if said else f"{argv[0]} ended with {done.returncode}"


def compiler(folder: Path) -> Finding:
    """A C++ program with OpenMP, compiled and run: what CPU candidates need."""
    (folder / "probe.cpp").write_text(CPP)
    done, said = run(["g++", "-O2", "-fopenmp", "probe.cpp", "-o", "probe"], folder)
    if done:
        done, said = run([str(folder / "probe")], folder)
    if not done:
        return Finding("compiler", "missing", said, "install g++ with OpenMP, e.g. apt-get install g++")
    return Finding("compiler", "ok", f"g++ compiles and runs OpenMP with {said} threads")


def nvcc(folder: Path, python: str, *, has_gpu: bool) -> Finding:
    """A CUDA file, compiled: what CUDA candidates need. Without a GPU its absence is no fault."""
    (folder / "probe.cu").write_text(CUDA)
    path = nvcc_path(python)
    fix = "install the CUDA toolkit, or: pip install nvidia-cuda-nvcc"
    if not path:
        return Finding("nvcc", "missing" if has_gpu else "warn", "nvcc was not found", fix)
    done, said = run([path, "-c", "probe.cu", "-o", "probe.o"], folder)
    if not done:
        return Finding("nvcc", "missing" if has_gpu else "warn", f"{path}: {said}", fix)
    _, release = run([path, "--version"], folder)
    return Finding("nvcc", "ok", f"{path} compiles ({release})")


def ninja(folder: Path) -> Finding:
    """A build of one step. The wheel's program lies beside this interpreter."""
    (folder / "build.ninja").write_text(NINJA)
    (folder / "source").write_text("")
    beside = Path(sys.executable).with_name("ninja")
    done, said = run([str(beside) if beside.exists() else "ninja"], folder)
    if not done or not (folder / "copied").exists():
        return Finding("ninja", "missing", said, "pip install ninja")
    return Finding("ninja", "ok", "ninja runs a build")


def gpu() -> Finding:
    """What the driver shows, with its version and free memory."""
    names = gpu_names()
    if not names:
        return Finding("gpu", "warn", "no NVIDIA GPU; kernels will be made for the CPU", "use a machine with a GPU")
    import pynvml

    pynvml.nvmlInit()
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0))
    finally:
        pynvml.nvmlShutdown()
    text = f"{', '.join(names)}; driver {driver}; {memory.free / 2**30:.0f} GiB free"
    return Finding("gpu", "ok", text)


def torch(folder: Path, python: str, *, has_gpu: bool) -> Finding:
    """torch imports and computes in the user's interpreter, on the GPU as well when there is one."""
    done, said = run([python, "-c", TORCH], folder)
    if not done:
        return Finding("torch", "missing", f"{python}: {said}", "install torch there, or name another with --python")
    found = json.loads(said)
    text = f"{found['version']} in {python}"
    if has_gpu and not found["cuda"]:
        return Finding("torch", "warn", f"{text}: a CPU build", "install a CUDA build of torch to use the GPU")
    if has_gpu and "cuda_sum" not in found:
        fix = "update the NVIDIA driver, or install a torch built for an older CUDA"
        return Finding("torch", "warn", f"{text}: CUDA {found['cuda']} does not run with this driver", fix)
    where = f", computes on the GPU (CUDA {found['cuda']})" if "cuda_sum" in found else ", computes on the CPU"
    return Finding("torch", "ok", text + where)


def sandbox() -> Finding:
    """The containment that was reached by running something in it."""
    found = Sandbox.find()
    if found.level is Isolation.PROCESS:
        fix = "pip install 'kevin-cli[sandbox]', or allow user namespaces"
        return Finding("sandbox", "warn", f"plain processes: {found.note}", fix)
    return Finding("sandbox", "ok", f"candidates run in {found.level.value}")


def cache(folder: Path) -> Finding:
    """Room for builds, and whether programs may run from there."""
    program = folder / "runs-here"
    program.write_text("#!/bin/sh\necho yes\n")
    program.chmod(0o700)
    done, said = run([str(program)], folder)
    fix = "name another folder with KEVIN_CACHE"
    if not done:
        return Finding("disk", "missing", f"{folder.parent} does not allow execution: {said}", fix)
    free = shutil.disk_usage(folder).free
    text = f"{free / 2**30:.0f} GiB free in {folder.parent}"
    return Finding("disk", "ok", text) if free > MIN_FREE_BYTES else Finding("disk", "warn", text, fix)
