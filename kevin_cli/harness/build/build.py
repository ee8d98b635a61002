"""Candidate source to finished libraries: the controller's side.

A recorder (`record.py`) imports the candidate in a sandbox without a GPU; each extension it asks for is
compiled here (`compile.py`) and the answer goes back. Everything of one candidate ends in one folder:
`candidate.py`, `manifest.json`, the libraries, the logs, read-only. The same candidate on the same
machine is found there next time. Importing torch takes seconds, so one recorder per interpreter is kept
waiting; each serves one candidate and is replaced.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kevin_cli.harness.build.cache import attempt_folder, locked, sweep
from kevin_cli.harness.build.compile import Compiled, Contain, compile_extension
from kevin_cli.harness.build.extension import Extension
from kevin_cli.harness.build.recipe import Recipe, headers_version
from kevin_cli.harness.build.recorder import RECORDERS, Recorder
from kevin_cli.harness.build.toolchain import Toolchain, find
from kevin_cli.harness.wire import ChannelClosed, DeadlineExceeded, ProtocolError
from kevin_cli.records import to_plain
from kevin_cli.types import BuildReport, DeviceKind, TensorSpec, Tree

Status = Literal["built", "no_extension", "failed", "went_on", "import_failed", "crashed", "timed_out"]
"""`went_on`: an extension does not compile, and the candidate was imported all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """One candidate to build."""

    source: str
    digest: str
    python: str
    """The user's interpreter."""
    device: DeviceKind
    init: Tree
    init_keywords: Tree
    timeout_s: float
    cache: Path
    contain: Contain
    capability: tuple[int, int] | None = None
    """The GPU's compute capability; asked from the driver when not given."""
    inputs: Tree | None = None
    """With `specs`, what `forward` takes: a candidate that builds in its first call is called, without memory."""
    specs: tuple[TensorSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """How the build ended; `directory` is what the worker takes."""

    status: Status
    detail: str
    log: str
    directory: Path
    report: BuildReport


CALL_TIMEOUT_S = 5.0
"""For a call with tensors that have no memory, made only to see which extensions it builds."""


@dataclass(slots=True)
class Session:
    """What happened while one candidate was recorded."""

    compiled: dict[str, tuple[Extension, Compiled]] = field(default_factory=dict)
    status: str = ""
    text: str = ""
    is_called: bool = False
    """Import and construction are over and built nothing; what becomes of a call is the worker's to report."""

    def patience(self, deadline: float) -> float:
        """Until when the next event may come."""
        return min(deadline, time.monotonic() + CALL_TIMEOUT_S) if self.is_called else deadline

    @property
    def failures(self) -> list[Compiled]:
        return [compiled for _, compiled in self.compiled.values() if compiled.library is None]


async def build(request: BuildRequest) -> Built:
    """Build one candidate, or find it built. Its failures are data; `MachineError` when this machine can't."""
    start = time.monotonic()
    chain = await asyncio.to_thread(find, request.python)
    folder = request.cache / "candidates" / candidate_key(request, chain)
    async with locked(request.cache / "locks" / f"candidate-{folder.name[:32]}"):
        if (found := _read(folder)) is not None:
            return _with(found, wall_s=time.monotonic() - start, cached=True)
        return await _build(request, chain, folder, start)


def candidate_key(request: BuildRequest, chain: Toolchain) -> str:
    """Everything that decides what a build gives, in hex."""
    identity = [
        hashlib.sha256(request.source.encode()).hexdigest(), request.device, _architecture(request),
        to_plain(request.init), to_plain(request.init_keywords), headers_version(), chain.identity,
        *_call(request).values(),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def architecture_of(capability: tuple[int, int]) -> str:
    """`90a` on Hopper: the exact architecture, with its own instructions where it has some."""
    number = f"{capability[0]}{capability[1]}"
    return f"{number}a" if capability >= (9, 0) else number


def _architecture(request: BuildRequest) -> str:
    if request.device is not DeviceKind.CUDA:
        return ""
    return architecture_of(request.capability or driver_capability() or (9, 0))


def driver_capability() -> tuple[int, int] | None:
    """What the driver says about device 0; `None` without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(pynvml.nvmlDeviceGetHandleByIndex(0))
    except pynvml.NVMLError:
        return None
    return int(major), int(minor)


async def _build(request: BuildRequest, chain: Toolchain, folder: Path, start: float) -> Built:
    sweep(request.cache)
    session = Session()
    recorder = RECORDERS.take(request.python, request.cache, request.contain)
    try:
        await recorder.warm()
        status, detail = await _record(request, chain, recorder, session, time.monotonic() + request.timeout_s)
    finally:
        recorder.close()
    RECORDERS.refill(request.python, request.cache, request.contain)
    report = _report(session, time.monotonic() - start)
    built = Built(status=status, detail=detail, log=_log(session, status), directory=folder, report=report)
    if status not in ("crashed", "timed_out"):
        _write(built, request, session)
    return built


async def _record(
    request: BuildRequest, chain: Toolchain, recorder: Recorder, session: Session, deadline: float
) -> tuple[Status, str]:
    """Serve the recorder until it ends, dies or runs out of time."""
    try:
        recorder.send(_begin(request, recorder))
        while (event := await recorder.event(session.patience(deadline)))["event"] != "end":
            if event["event"] == "calling":
                session.is_called = True
                continue
            extension = Extension.from_json(event["extension"])
            compiled = await _compile(extension, request, chain, deadline)
            session.compiled[extension.key] = (extension, compiled)
            if compiled.timed_out:
                return "timed_out", f"the compiler did not finish within {request.timeout_s:g} s"
            recorder.send({"built": compiled.library is not None, "log": compiled.log})
        session.status, session.text = str(event["status"]), str(event["text"])
    except DeadlineExceeded:
        if session.is_called:
            return _verdict(session)
        return "timed_out", f"importing the candidate did not finish within {request.timeout_s:g} s"
    except (ChannelClosed, ProtocolError, KeyError, TypeError, ValueError):
        return _after_crash(session, recorder.how_it_ended())
    return _verdict(session)


def _begin(request: BuildRequest, recorder: Recorder) -> dict[str, Any]:
    candidate = recorder.folder / "candidate.py"
    candidate.write_text(request.source)
    capability = request.capability or driver_capability() or (9, 0)
    return {
        "op": "build",
        "candidate": str(candidate),
        "scratch": str(recorder.folder),
        "capability": capability if request.device is DeviceKind.CUDA else None,
        "init": to_plain(request.init),
        "init_keywords": to_plain(request.init_keywords),
        **_call(request),
    }


def _call(request: BuildRequest) -> dict[str, Any]:
    """What `forward` takes, for the recorder."""
    specs = [to_plain(spec) | {"domain": None} for spec in request.specs]
    return {"inputs": to_plain(request.inputs) if request.inputs else None, "specs": specs}


async def _compile(extension: Extension, request: BuildRequest, chain: Toolchain, deadline: float) -> Compiled:
    recipe = Recipe(extension=extension, toolchain=chain, device=request.device, architecture=_architecture(request))
    left_s = max(0.0, deadline - time.monotonic())
    return await compile_extension(recipe, cache=request.cache, contain=request.contain, timeout_s=left_s)


def _after_crash(session: Session, how: str) -> tuple[Status, str]:
    if session.failures:
        return "failed", "the extension does not compile"
    if session.is_called:
        return _verdict(session)
    return "crashed", f"the process that imports the candidate {how}"


def _verdict(session: Session) -> tuple[Status, str]:
    """A failed compile is a failed build, or is named as one that the candidate goes on without."""
    if session.failures and session.status == "ran" and not session.text:
        return "went_on", "its extension does not compile, and it goes on without"
    if session.failures:
        return "failed", "the extension does not compile"
    if session.status == "raised":
        return "import_failed", (session.text.strip().splitlines() or ["the candidate cannot be imported"])[-1]
    if not session.compiled:
        return "no_extension", "the candidate builds no extension"
    return "built", f"built {len(session.compiled)} extension{'s' if len(session.compiled) > 1 else ''}"


def _log(session: Session, status: Status) -> str:
    if status in ("failed", "went_on"):
        return "\n".join(compiled.log for compiled in session.failures)
    return session.text if status == "import_failed" else ""


def _report(session: Session, wall_s: float) -> BuildReport:
    compiled = [item for _, item in session.compiled.values()]
    stock = [item for item in compiled if item.way == "stock"]
    way: Literal["thin", "stock", "none"] = "stock" if stock else "thin" if compiled else "none"
    return BuildReport(
        way=way,
        wall_s=wall_s,
        num_libraries=sum(item.library is not None for item in compiled),
        cached=bool(compiled) and all(item.cached for item in compiled),
        note="; ".join(dict.fromkeys(item.note for item in stock if item.note)),
    )


# --- the candidate's folder ------------------------------------------------------------------------


def _write(built: Built, request: BuildRequest, session: Session) -> None:
    """Fill a folder beside its final place and move it there: all of it or nothing."""
    built.directory.parent.mkdir(parents=True, exist_ok=True)
    attempt = attempt_folder(request.cache, "publish")
    (attempt / "candidate.py").write_text(request.source)
    extensions = {}
    for key, (extension, compiled) in session.compiled.items():
        (attempt / f"{key[:16]}.log").write_bytes(compiled.log_path.read_bytes())
        if compiled.library is not None:
            name = f"kevin_{key[:16]}.so"
            _link(compiled.library, attempt / name)
            extensions[key] = {
                "library": name,
                "name": extension.name,
                "way": compiled.way,
                "module": extension.python_module,
            }
    report = {"status": built.status, "detail": built.detail, "log": built.log, "report": to_plain(built.report)}
    (attempt / "manifest.json").write_text(json.dumps({"extensions": extensions, **report}, indent=1))
    for path in attempt.iterdir():
        path.chmod(0o444)
    os.rename(attempt, built.directory)
    built.directory.chmod(0o555)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _read(folder: Path) -> Built | None:
    try:
        data = json.loads((folder / "manifest.json").read_text())
    except OSError:
        return None
    report = BuildReport(**data["report"])
    return Built(status=data["status"], detail=data["detail"], log=data["log"], directory=folder, report=report)


def _with(built: Built, *, wall_s: float, cached: bool) -> Built:
    return replace(built, report=replace(built.report, wall_s=wall_s, cached=cached))
