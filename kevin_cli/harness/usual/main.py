"""The usual judge: reference and candidate in one process, five public seeds, allclose at 1e-2, its own clock.

It is written the way evaluators of generated kernels usually are, so that `kevin selftest` can say what that misses.
Every candidate has a forked process of its own (torch is imported once); that is kinder than usual. It also answers
whether a planted bug is wrong on its witness.

Its answers are believed by nobody: the candidate can forge them, which is the point.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kevin_cli.harness.wire import Channel, ChannelClosed, Kind
from kevin_cli.harness.worker import extensions

SEED = 42
NUM_SEEDS = 5
TOLERANCE = 1e-2
NUM_TIMED = 20
EXACT = {torch.float16: (1e-3, 1e-4), torch.bfloat16: (8e-3, 1e-3)}
"""(relative, absolute) by which a witness decides; float32 below."""
EXACT_FLOAT = (2e-5, 3e-6)
ANSWER_CAP_BYTES = 4096
NUM_RUBBISH = 16

Body = dict[str, Any]


def judge(body: Body) -> Body:
    """Build both, run both on the same inputs, reference first; then time both on one set of inputs."""
    context = _load(body)
    model, model_new = _construct(context, "Model", body), _construct(context, "ModelNew", body)
    with torch.no_grad():
        for trial in range(NUM_SEEDS):
            torch.manual_seed(SEED + trial)
            inputs = [_moved(value, body["device"]) for value in context["get_inputs"]()]
            output = model(*inputs)
            output_new = model_new(*inputs)
            if problem := _unlike(output, output_new):
                return {"passed": False, "detail": problem, "speedup": 0.0}
        reference_s = _time(model, inputs)
        candidate_s = _time(model_new, inputs)
    return {"passed": True, "detail": "", "speedup": reference_s / max(candidate_s, 1e-9)}


def witness(body: Body) -> Body:
    """Whether the candidate differs from the reference on the inputs of its witness."""
    context = _load(body)
    model, model_new = _construct(context, "Model", body), _construct(context, "ModelNew", body)
    with torch.no_grad():
        for module in (model, model_new):
            torch.manual_seed(SEED)
            exec(body["setup"], {"torch": torch, "module": module})
        torch.manual_seed(SEED)
        calls = eval(body["calls"], {"torch": torch}) if body["calls"] else [context["get_inputs"]()]
        for number, arguments in enumerate(calls):
            inputs = [_moved(value, body["device"]) for value in arguments]
            expected = model(*inputs)
            _leave_rubbish(expected)
            if problem := _differs(expected, model_new(*inputs)):
                return {"passed": False, "detail": f"call {number}: {problem}", "speedup": 0.0}
            if number == 0:
                for module in (model, model_new):
                    exec(body["between"], {"torch": torch, "module": module})
    return {"passed": True, "detail": "", "speedup": 0.0}


def _load(body: Body) -> dict[str, Any]:
    """Reference and candidate in one namespace, as is usual."""
    context: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(Path(body["task"]).read_text(), body["task"], "exec"), context)
    extensions.install(Path(body["build"]))
    path = str(Path(body["build"]) / "candidate.py")
    exec(compile(Path(path).read_text(), path, "exec"), context)
    return context


def _construct(context: dict[str, Any], name: str, body: Body) -> Any:
    torch.manual_seed(SEED)
    return context[name](*context["get_init_inputs"]()).to(body["device"]).eval()


def _moved(value: Any, device: str) -> Any:
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _pairs(output: Any, output_new: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    if isinstance(output, torch.Tensor):
        return [(output, output_new)]
    return list(zip(output, output_new, strict=True))


def _unlike(output: Any, output_new: Any) -> str:
    for expected, found in _pairs(output, output_new):
        if expected.shape != found.shape:
            return f"shape {tuple(found.shape)}"
        if not torch.allclose(expected.float(), found.float(), atol=TOLERANCE, rtol=TOLERANCE):
            return f"off by {(expected.float() - found.float()).abs().max():.3g}"
    return ""


def _differs(output: Any, output_new: Any) -> str:
    for expected, found in _pairs(output, output_new):
        if expected.shape != found.shape or expected.dtype != found.dtype:
            return f"{tuple(found.shape)} {found.dtype}"
        relative, absolute = EXACT.get(expected.dtype, EXACT_FLOAT)
        if not torch.allclose(expected.double(), found.double(), rtol=relative, atol=absolute, equal_nan=True):
            return f"off by {(expected.double() - found.double()).abs().max():.3g}"
    return ""


def _leave_rubbish(output: Any) -> None:
    """Fill and free memory of the outputs' sizes, so that what is left unwritten is no result of the reference's."""
    outputs = [output] if isinstance(output, torch.Tensor) else list(output)
    rubbish = [torch.full_like(tensor, 77) for tensor in outputs for _ in range(NUM_RUBBISH)]
    del rubbish


def _time(module: Any, inputs: list[Any]) -> float:
    """Seconds a call."""
    for _ in range(3):
        module(*inputs)
    _wait()
    start = time.perf_counter()
    for _ in range(NUM_TIMED):
        module(*inputs)
    _wait()
    return (time.perf_counter() - start) / NUM_TIMED


def _wait() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


# --- one process for each candidate ----------------------------------------------------------------


def _in_fork(work: Callable[[Body], Body], body: Body) -> bytes:
    """The JSON answer of a forked process; what ended it, when it did not answer in time."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _answer(work, body, write)
    os.close(write)
    try:
        if not select.select([read], [], [], body["timeout_s"])[0]:
            return _lost("it did not finish in time")
        return os.read(read, ANSWER_CAP_BYTES) or _lost("it ended without an answer")
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _lost(why: str) -> bytes:
    return json.dumps({"passed": False, "detail": why, "speedup": 0.0}).encode()


def _answer(work: Callable[[Body], Body], body: Body, write: int) -> None:
    try:
        answer = work(body)
    except BaseException as error:  # noqa: BLE001 - a candidate may raise anything; this judge calls it a failure
        answer = {"passed": False, "detail": f"{type(error).__name__}: {error}"[:200], "speedup": 0.0}
    os.write(write, json.dumps(answer).encode()[:ANSWER_CAP_BYTES])
    os._exit(0)


WORK: types.MappingProxyType[str, Callable[[Body], Body]] = types.MappingProxyType({"judge": judge, "witness": witness})


def main(fd: int) -> None:
    """Answer until the other side is gone."""
    channel = Channel.from_fd(fd)
    channel.send(Kind.READY)
    with contextlib.suppress(ChannelClosed):
        while True:
            frame = channel.recv()
            body = frame.json()
            channel.send(Kind.ANSWER, _in_fork(WORK[body["op"]], body), sequence=frame.sequence)
