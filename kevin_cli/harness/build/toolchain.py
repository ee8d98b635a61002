"""What builds: the compilers of this machine and the torch of the user's interpreter.

The controller imports no torch. The user's interpreter is asked once where its torch lies (without
importing it); compilers are looked for on PATH, then where CUDA is usually installed, then in the
`nvidia-cuda-nvcc` wheel beside the user's torch. Answers are kept for the life of the process.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kevin_cli.errors import MachineError

OLDEST_THIN, NEWEST_THIN = (2, 11), (2, 13)
"""The torch versions on which the thin headers are tested."""
TORCH_LIBRARIES = ("c10", "torch_cpu", "c10_cuda", "torch_cuda")
"""What thin libraries are linked to; the last two only where this torch has them."""
PROBE = """
import importlib.util, json, sysconfig, sys
spec = importlib.util.find_spec("torch")
print(json.dumps({
    "torch": spec and spec.submodule_search_locations[0],
    "include": sysconfig.get_path("include"),
    "site": [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")],
    "version": sys.version.split()[0],
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Everything that a build needs to know about the machine."""

    python: str
    python_version: str
    python_include: Path
    torch_root: Path
    torch_version: str
    cxx: str
    cxx_version: str
    cxx_standard: str
    """What torch's own builds use, e.g. `c++20`."""
    nvcc: str | None
    nvcc_version: str
    cuda_root: Path | None

    @property
    def torch_lib(self) -> Path:
        return self.torch_root / "lib"

    @property
    def torch_includes(self) -> tuple[Path, ...]:
        return self.torch_root / "include", self.torch_root / "include/torch/csrc/api/include"

    @property
    def has_thin(self) -> bool:
        """Whether the thin headers are tested with this torch."""
        found = re.match(r"(\d+)\.(\d+)", self.torch_version)
        return found is not None and OLDEST_THIN <= (int(found[1]), int(found[2])) <= NEWEST_THIN

    @property
    def identity(self) -> tuple[str, ...]:
        """What, when it changes, makes an old library useless."""
        return self.python_version, self.torch_version, self.cxx_version, self.nvcc_version, str(self.torch_root)


@lru_cache(maxsize=16)
def find(python: str) -> Toolchain:
    """The toolchain for one interpreter. Raises `MachineError` without a compiler or without torch there."""
    cxx = next((path for name in ("g++", "c++", "clang++") if (path := shutil.which(name))), None)
    if cxx is None:
        raise MachineError("no C++ compiler found", "install g++ 11 or newer (`apt-get install g++`)")
    answer = _ask(python)
    if not answer["torch"]:
        raise MachineError(f"{python} has no torch", "name an interpreter that has it with --python")
    root = Path(answer["torch"])
    nvcc = find_nvcc([Path(site) for site in answer["site"]])
    return Toolchain(
        python=python,
        python_version=answer["version"],
        python_include=Path(answer["include"]),
        torch_root=root,
        torch_version=_torch_version(root),
        cxx=cxx,
        cxx_version=_first_line([cxx, "--version"]),
        cxx_standard=_standard(root),
        nvcc=str(nvcc) if nvcc else None,
        nvcc_version=_nvcc_version(nvcc) if nvcc else "",
        cuda_root=_cuda_root(nvcc) if nvcc else None,
    )


def find_nvcc(site_packages: list[Path]) -> Path | None:
    """nvcc from PATH, CUDA_HOME, /usr/local/cuda or the wheel, in this order."""
    on_path = shutil.which("nvcc")
    places = [Path(on_path)] if on_path else []
    places += [Path(os.environ[name]) / "bin/nvcc" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places.append(Path("/usr/local/cuda/bin/nvcc"))
    for site in site_packages:
        places += sorted((site / "nvidia").glob("*/bin/nvcc"))
    return next((place for place in places if place.is_file()), None)


def _cuda_root(nvcc: Path) -> Path:
    """The toolkit's folder; a wrapper script on PATH is asked where it leads."""
    root = nvcc.resolve().parent.parent
    if (root / "include/cuda_runtime.h").exists():
        return root
    dry = subprocess.run([nvcc, "--dryrun", "-x", "cu", "/dev/null"], capture_output=True, text=True, check=False)
    top = re.search(r"^#\$ TOP=(.+)$", dry.stderr, re.MULTILINE)
    return Path(top[1].strip()).resolve() if top else root


def _ask(python: str) -> dict[str, str]:
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=60, check=True)
        answer: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise MachineError(f"{python} cannot be used: {error}", "name a working interpreter with --python") from error
    return answer


def _torch_version(root: Path) -> str:
    found = re.search(r"__version__ = '([^']+)'", (root / "version.py").read_text())
    return found[1] if found else ""


def _standard(root: Path) -> str:
    """What torch's own builds say most often: c++17 up to 2.11, c++20 later."""
    found = re.findall(r"'-std=(c\+\+\d+)'", (root / "utils/cpp_extension.py").read_text())
    return Counter(found).most_common(1)[0][0] if found else "c++20"


def _first_line(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return (done.stdout.splitlines() or [""])[0]


def _nvcc_version(nvcc: Path) -> str:
    done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"V\d+(\.\d+)+", done.stdout)
    return found[0] if found else ""


def num_cpus() -> int:
    """CPUs that this process may use: affinity, then the cgroup's quota."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return allowed
    return allowed if quota == "max" else max(1, min(allowed, int(quota) // int(period)))
