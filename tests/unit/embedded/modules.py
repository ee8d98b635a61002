"""Small modules as tasks, and their generated CPU kernels compiled without torch, for the tests of this folder."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from kevin_cli.harness.reference.graph import trace
from kevin_cli.policies.embedded.cpu import cpu_kernel
from kevin_cli.policies.embedded.cpu_elements import STORAGE
from kevin_cli.policies.embedded.cpu_math import prelude
from kevin_cli.policies.embedded.details import Call, Order, Slice, Tensor
from kevin_cli.policies.embedded.module import call_suffix
from kevin_cli.policies.embedded.plan import CpuPlan
from kevin_cli.policies.embedded.reading import read
from kevin_cli.policies.embedded.regions import Kernel, TorchCall, steps
from kevin_cli.policies.embedded.source import KernelSource
from kevin_cli.policies.embedded.values import Value
from kevin_cli.types import Contract, DeviceKind, ParameterSpec, Rules, Target, Task, TensorSpec, Tree

HEADER = """\
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>
#include <sys/mman.h>
#ifdef __AVX__
#include <immintrin.h>
#endif
#define TORCH_CHECK_INDEX(condition, text) if (!(condition)) std::abort()
#define INLINE static inline __attribute__((always_inline))
"""
FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-Wall", "-Wno-unused-variable"]
SOURCE = "class Model(nn.Module):\n    def forward(self, x, y=None, z=None):\n        pass\n"


class Body(nn.Module):
    """`body(self, *inputs)` with the given parameters."""

    def __init__(self, body: Callable[..., Any], **parameters: torch.Tensor) -> None:
        super().__init__()
        self.body = body
        for name, value in parameters.items():
            setattr(self, name, nn.Parameter(value))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.body(self, *inputs)


def task_of(module: nn.Module, inputs: tuple[torch.Tensor, ...], name: str = "task", device: str = "cpu") -> Task:
    """The module as a task with these inputs."""
    with torch.no_grad():
        result = module.eval()(*inputs)
    results = result if isinstance(result, tuple) else (result,)
    leaves = tuple(Tree(kind="tensor", index=place) for place in range(len(results)))
    graph, note = trace(module, inputs)
    parameters = {key for key, _ in module.named_parameters()}
    return Task(
        name=name,
        digest=hashlib.sha256(name.encode()).hexdigest(),
        target=Target(path="/nowhere/model.py", class_name="Model", python="python"),
        source=SOURCE,
        init=Tree(kind="tuple"),
        init_keywords=Tree(kind="dict"),
        inputs=Tree(kind="tuple", items=tuple(Tree(kind="tensor", index=n) for n in range(len(inputs)))),
        outputs=Tree(kind="tuple", items=leaves) if isinstance(result, tuple) else leaves[0],
        output_specs=tuple(map(spec_of, results)),
        parameters=tuple(
            ParameterSpec(
                name=key,
                shape=tuple(value.shape),
                dtype=dtype_name(value),
                kind="parameter" if key in parameters else "buffer",
            )
            for key, value in module.state_dict().items()
        ),
        contract=Contract(device=DeviceKind(device), inputs=tuple(map(spec_of, inputs))),
        graph=graph,
        graph_note=note,
    )


def dtype_name(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def spec_of(value: torch.Tensor) -> TensorSpec:
    return TensorSpec(shape=tuple(value.shape), dtype=dtype_name(value), strides=tuple(value.stride()))


class Written:
    """A task's generated C++ kernels, run step by step as `ModelNew.forward` would, once `compiled` has made them."""

    def __init__(self, task: Task, label: str, plan: CpuPlan, rules: Rules = Rules.LIBRARY) -> None:
        self.outputs = read(task, rules).outputs
        self.steps = steps(self.outputs, tuple(spec.strides for spec in task.output_specs))
        kernels = [step for step in self.steps if isinstance(step, Kernel)]
        self.sources = [cpu_kernel(f"{label}_{number}", kernel, plan) for number, kernel in enumerate(kernels)]
        self.library: ctypes.CDLL | None = None

    def __call__(self, module: nn.Module, *inputs: torch.Tensor, num_threads: int = 2) -> tuple[torch.Tensor, ...]:
        names = dict(zip(("x", "y", "z"), inputs, strict=False)) | {"self": module, "getattr": getattr}
        known: dict[Value, torch.Tensor] = {}
        sources = iter(self.sources)
        for step in self.steps:
            if isinstance(step, TorchCall):
                known[step.value] = torch_call(step.value, known, names)
            else:
                self._run(step, next(sources), known, names, num_threads)
        return tuple(tensor_of(value, known, names) for value in self.outputs)

    def _run(
        self,
        kernel: Kernel,
        source: KernelSource,
        known: dict[Value, torch.Tensor],
        names: dict[str, Any],
        num_threads: int,
    ) -> None:
        inputs = [tensor_of(item.value, known, names) for item in source.inputs]
        for item, value in zip(source.inputs, inputs, strict=True):
            assert tuple(value.shape) == item.shape
            assert all(a == b for a, b, n in zip(value.stride(), item.strides, item.shape, strict=True) if n > 1)
        outputs = made(source, known)
        pointers = [ctypes.c_void_p(value.data_ptr()) for value in (*inputs, *outputs)]
        getattr(self.library, f"run_{source.name}")(*pointers, ctypes.c_int(num_threads))
        known.update({kernel.whole: outputs[0]} if kernel.whole else zip(kernel.targets, outputs, strict=True))


def made(source: KernelSource, known: dict[Value, torch.Tensor]) -> list[torch.Tensor]:
    """The tensors that a kernel writes; the parts of a joined one write into the same."""
    fresh: dict[Value, torch.Tensor] = {}
    for item in source.outputs:
        if item.value not in known and item.value not in fresh:
            fresh[item.value] = torch.empty_strided(item.shape, item.strides, dtype=getattr(torch, item.dtype))
    return [known[item.value] if item.value in known else fresh[item.value] for item in source.outputs]


def compiled(written: Sequence[Written], folder: Path) -> None:
    """One library of all kernels: starting the compiler once is what keeps these tests quick."""
    sources = [source for item in written for source in item.sources]
    pieces = {piece for source in sources for piece in source.pieces}
    text = HEADER + prelude(pieces) + "".join(source.code + _entry(source) for source in sources)
    library = compiled_text(text, folder)
    for item in written:
        item.library = library


def compiled_text(text: str, folder: Path, flags: Sequence[str] = FLAGS) -> ctypes.CDLL:
    """Some C++ as a loaded library."""
    (folder / "kernels.cpp").write_text(text)
    command = ["g++", *flags, "-shared", "-fPIC", str(folder / "kernels.cpp"), "-o", str(folder / "kernels.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return ctypes.CDLL(str(folder / "kernels.so"))


def _entry(source: KernelSource) -> str:
    arguments = [f"const {STORAGE[item.dtype]}* {item.name}_data" for item in source.inputs]
    arguments += [f"{STORAGE[item.dtype]}* {item.name}_data" for item in source.outputs]
    body = " ".join(source.launch)
    return f'extern "C" void run_{source.name}({", ".join(arguments)}, int num_threads) {{ {body} }}\n'


def tensor_of(value: Value, known: dict[Value, torch.Tensor], names: dict[str, Any]) -> torch.Tensor:
    if value in known:
        return known[value]
    if isinstance(value.detail, Tensor):
        found: torch.Tensor = eval(value.detail.source, dict(names))
        return found.detach()
    return _view(value, tensor_of(value.operands[0], known, names))


def _view(value: Value, operand: torch.Tensor) -> torch.Tensor:
    detail = value.detail
    if isinstance(detail, Order):
        return operand.permute(detail.dims)
    if isinstance(detail, Slice):
        return operand.narrow(detail.dim, detail.start, value.shape[detail.dim])
    return operand.expand(value.shape) if value.op == "expand" else operand.reshape(value.shape)


def torch_call(value: Value, known: dict[Value, torch.Tensor], names: dict[str, Any]) -> torch.Tensor:
    assert isinstance(value.detail, Call)
    operands = {f"operand_{n}": tensor_of(operand, known, names) for n, operand in enumerate(value.operands)}
    text = value.detail.text.format(*operands) + call_suffix(value)
    result: torch.Tensor = eval(text, {"torch": torch, "F": F, **operands})
    return result
