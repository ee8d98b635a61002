"""The program that imports a candidate where nothing can be harmed and no GPU is: `launch.py build FD`.

It answers `load_inline` and `load` by describing the extension to the controller, which compiles it, and
returns a stand-in for the module. Questions about the GPU are answered with what the controller says.
A candidate that builds in its constructor is constructed too, one that builds in its first call is called, with
tensors that have no memory. It decides nothing: whether something was
built is known by who built it. Runs in the user's interpreter; standard library and torch only.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from kevin_cli.harness.build.extension import Extension, from_load, from_load_inline, torch_cpp_extension
from kevin_cli.harness.wire import LARGE_CAP_BYTES, Channel, Kind

MAX_TEXT = 8000


class NotBuiltHere(RuntimeError):  # noqa: N818
    """A function of an extension was called while the candidate is only being built."""


class StandIn(types.ModuleType):
    """What `load_inline` gives back here: any attribute is a function that refuses to run."""

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise NotBuiltHere(f"{self.__name__}.{name} was called while building")

        return refuse


class Recorder:
    """Sends every extension to the controller and waits for it to be compiled."""

    def __init__(self, channel: Channel, sequence: int) -> None:
        self.channel = channel
        self.sequence = sequence
        self.num_extensions = 0

    def build(self, extension: Extension) -> StandIn:
        """Raises `RuntimeError` with the compiler's lines when it does not compile, as torch does."""
        self.num_extensions += 1
        self.send({"event": "extension", "extension": extension.to_json()})
        answer = self.channel.recv(cap_bytes=LARGE_CAP_BYTES).json()
        if not answer["built"]:
            raise RuntimeError(f"Error building extension '{extension.name}': {answer['log']}")
        return StandIn(extension.name)

    def send(self, event: dict[str, Any]) -> None:
        import json

        self.channel.send(Kind.ANSWER, json.dumps(event).encode(), sequence=self.sequence)


def install(recorder: Recorder) -> None:
    """Put our `load_inline` and `load` in the place of torch's."""
    cpp_extension = torch_cpp_extension()

    def load_inline(*args: Any, **kwargs: Any) -> StandIn:
        return recorder.build(from_load_inline(*args, **kwargs))

    def load(*args: Any, **kwargs: Any) -> StandIn:
        return recorder.build(from_load(*args, **kwargs))

    cpp_extension.load_inline = load_inline
    cpp_extension.load = load


def pretend_gpu(capability: tuple[int, int] | None) -> None:
    """Answer questions about the device; nothing can run on it."""
    import torch

    if capability is None:
        return
    properties = SimpleNamespace(
        name="kevin build", major=capability[0], minor=capability[1], multi_processor_count=132,
        total_memory=80 << 30, warp_size=32, max_threads_per_multi_processor=2048, shared_memory_per_block=49152,
        shared_memory_per_multiprocessor=233472, shared_memory_per_block_optin=232448, regs_per_multiprocessor=65536,
        L2_cache_size=50 << 20,
    )  # fmt: skip
    answers: dict[str, Any] = {
        "is_available": True, "device_count": 1, "current_device": 0, "get_device_capability": tuple(capability),
        "get_device_name": properties.name, "get_device_properties": properties, "is_bf16_supported": True,
        "get_arch_list": [f"sm_{capability[0]}{capability[1]}"],
    }  # fmt: skip
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, _answer=answer, **__: _answer)


def plain(tree: dict[str, Any], leaves: Sequence[Any] = ()) -> Any:
    """A `Tree` from JSON as the value that it stands for, around `leaves`."""
    if tree["kind"] == "tensor":
        return leaves[tree["index"]]
    items = [plain(item, leaves) for item in tree.get("items", ())]
    if tree["kind"] == "dict":
        return dict(zip(tree["keys"], items, strict=True))
    return {"list": items, "tuple": tuple(items)}.get(tree["kind"], tree.get("value"))


def run_candidate(path: Path, recorder: Recorder, request: dict[str, Any]) -> None:
    """Import the candidate; construct it when the import built nothing, and call it when that built nothing."""
    spec = importlib.util.spec_from_file_location("candidate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["candidate"] = module
    spec.loader.exec_module(module)
    if recorder.num_extensions or not hasattr(module, "ModelNew"):
        return
    with contextlib.suppress(Exception):  # why it cannot be constructed is the worker's to report
        made = module.ModelNew(*plain(request["init"]), **plain(request["init_keywords"]))
        if recorder.num_extensions == 0 and request["inputs"]:
            try_call(made, recorder, request)


def try_call(made: Callable[..., Any], recorder: Recorder, request: dict[str, Any]) -> None:
    """Call it to see what it builds. Whatever else comes of the call, `SystemExit` too, is the worker's to report."""
    recorder.send({"event": "calling"})
    with contextlib.suppress(BaseException):
        made(*plain(request["inputs"], shapes(request["specs"])))


def shapes(specs: Sequence[dict[str, Any]]) -> list[Any]:
    """Tensors with these shapes and types, and nothing in them: whatever computes with them takes no time."""
    import torch

    return [
        torch.empty_strided(spec["shape"], spec["strides"], dtype=getattr(torch, spec["dtype"]), device="meta")
        for spec in specs
    ]


def own_traceback(error: BaseException, path: Path) -> str:
    """The traceback with the candidate's own lines only."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    lines = traceback.format_list(frames) + traceback.format_exception_only(type(error), error)
    text = "".join(lines).replace(str(path), path.name)
    return text if len(text) <= MAX_TEXT else "..." + text[-MAX_TEXT:]


def is_about_gpu(error: BaseException) -> bool:
    """The candidate touched the GPU, or ran its kernel, while being imported: fine later, not here."""
    if isinstance(error, NotBuiltHere):
        return True
    text = str(error)
    return isinstance(error, (RuntimeError, AssertionError)) and any(w in text for w in ("CUDA", "NVIDIA", "cuda"))


def answer(channel: Channel) -> None:
    """Serve one request: one candidate."""
    frame = channel.recv(cap_bytes=LARGE_CAP_BYTES)
    request = frame.json()
    recorder = Recorder(channel, frame.sequence)
    path = Path(request["candidate"])
    os.chdir(request["scratch"])
    pretend_gpu(request["capability"])
    install(recorder)
    try:
        run_candidate(path, recorder, request)
    except BaseException as error:  # noqa: BLE001 - whatever the candidate raises is data
        status = "ran" if request["capability"] and is_about_gpu(error) else "raised"
        recorder.send({"event": "end", "status": status, "text": own_traceback(error, path)})
        return
    recorder.send({"event": "end", "status": "ran", "text": ""})


def main(fd: int) -> None:
    """Warm up, say so, serve one request, leave without running the candidate's exit handlers."""
    channel = Channel.from_fd(fd)
    torch_cpp_extension()

    channel.send(Kind.READY)
    answer(channel)
    os._exit(0)
