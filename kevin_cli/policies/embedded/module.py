"""Kernels and calls -> the candidate: one Python file that defines `ModelNew`.

The C++ side checks shapes, strides and types before it takes a pointer; the Python side declares the
reference's parameters and buffers under the reference's names and runs the steps in order. Intermediate
tensors are contiguous. Written to be read and edited.
"""

from __future__ import annotations

from dataclasses import replace

from kevin_cli.policies.embedded.cpu_elements import STORAGE as CPU_STORAGE
from kevin_cli.policies.embedded.cpu_math import prelude as cpu_prelude
from kevin_cli.policies.embedded.cuda_math import prelude as cuda_prelude
from kevin_cli.policies.embedded.details import Call, Order, Shape, Slice, Tensor
from kevin_cli.policies.embedded.names import (
    attribute,
    constructor_signature,
    distinct,
    forward_arguments,
    identifier,
    output_source,
)
from kevin_cli.policies.embedded.plan import CpuPlan, Plan
from kevin_cli.policies.embedded.regions import VIEWS, Kernel, Step, TorchCall
from kevin_cli.policies.embedded.source import Argument, KernelSource, Lines
from kevin_cli.policies.embedded.space import contiguous_strides
from kevin_cli.policies.embedded.values import SEVERAL, Value
from kevin_cli.types import DeviceKind, ParameterSpec, Task

CPU_INCLUDES = ("torch/extension.h",)
CPU_STANDARD = ("algorithm", "atomic", "cmath", "cstdint", "cstring", "limits", "vector")
CUDA_INCLUDES = ("torch/extension.h", "ATen/cuda/CUDAContext.h", "c10/cuda/CUDAException.h", "c10/cuda/CUDAGuard.h")
CPU_FLAGS = ["-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"]
INLINE = "#define INLINE static inline __attribute__((always_inline))"
SCALAR_TYPES = {
    **{"float32": "torch::kFloat32", "bfloat16": "torch::kBFloat16", "float16": "torch::kFloat16"},
    **{"bool": "torch::kBool", "int64": "torch::kInt64", "int32": "torch::kInt32", "int16": "torch::kInt16"},
    **{"int8": "torch::kInt8", "uint8": "torch::kUInt8"},
}
CUDA_STORAGE = {**CPU_STORAGE, "bfloat16": "__nv_bfloat16", "float16": "__half"}


def candidate(
    task: Task, steps: tuple[Step, ...], outputs: tuple[Value, ...], sources: tuple[KernelSource, ...], plan: Plan
) -> str:
    """The whole program. `sources` belong to the kernels among `steps`, in order."""
    is_cpu = isinstance(plan, CpuPlan)
    kernels = "\n".join(f"// {source.note}\n{source.code}" for source in sources)
    wrappers = "\n".join(_wrapper(source, task.contract.device) for source in sources)
    text = _prelude(sources, is_cpu) + kernels + "\n" + wrappers
    lines = Lines(indent="    ")
    lines.add("import torch", "import torch.nn.functional as F", "from torch import nn")
    lines.add("from torch.utils.cpp_extension import load_inline", "")
    lines.add(f'SOURCE = r"""\n{text}"""', "")
    _load(lines, task, sources, is_cpu)
    lines.add("", "")
    _module(lines, task, steps, outputs, sources, is_cpu)
    body = lines.text()
    return (
        body
        if "F." in body.replace("nn.functional as F", "")
        else body.replace("import torch.nn.functional as F\n", "")
    )


def _prelude(sources: tuple[KernelSource, ...], is_cpu: bool) -> str:
    pieces = {piece for source in sources for piece in source.pieces}
    code = "".join(source.code + " ".join(source.launch) for source in sources)
    if not is_cpu:
        halves = [f"cuda_{kind}.h" for kind, name in (("fp16", "float16"), ("bf16", "bfloat16")) if name in pieces]
        halves += ["mma.h"] if "wmma" in code else []
        includes = [f"#include <{name}>" for name in (*CUDA_INCLUDES, *halves)]
        return "\n".join([*includes, "", cuda_prelude(code), ""])
    standard = [name for name in CPU_STANDARD if _needs(name, code, pieces)]
    includes = [f"#include <{name}>" for name in (*CPU_INCLUDES, *standard)]
    if "huge_pages" in pieces:
        includes += ["#ifdef __linux__", "#include <sys/mman.h>", "#endif"]
    if "stream" in pieces:
        includes += ["#ifdef __AVX__", "#include <immintrin.h>", "#endif"]
    return "\n".join([*includes, "", INLINE, "", cpu_prelude(pieces), ""])


def _needs(header: str, code: str, pieces: set[str]) -> bool:
    optional = {"vector": "std::vector" in code, "atomic": "bounded" in pieces}
    return optional.get(header, True)


def _load(lines: Lines, task: Task, sources: tuple[KernelSource, ...], is_cpu: bool) -> None:
    lines.open("kernels = load_inline(")
    lines.add(f'name="kevin_{identifier(task.name)}",')
    functions = ", ".join(f'"{_function(source)}"' for source in sources)
    if is_cpu:
        lines.add("cpp_sources=[SOURCE],", f"functions=[{functions}],")
        lines.add(f"extra_cflags={CPU_FLAGS!r},".replace("'", '"'), 'extra_ldflags=["-fopenmp"],')
    else:
        declarations = " ".join(_signature(source, False) + ";" for source in sources)
        lines.add(f'cpp_sources=["{declarations}"],', "cuda_sources=[SOURCE],", f"functions=[{functions}],")
        lines.add('extra_cuda_cflags=["-O3"],')
    lines.close(")")


def _function(source: KernelSource) -> str:
    return source.name.removesuffix("_kernel")


def _signature(source: KernelSource, is_cpu: bool) -> str:
    made = [item for item in source.outputs if not item.is_given]
    result = ("void", "torch::Tensor")[len(made)] if len(made) < 2 else "std::vector<torch::Tensor>"
    arguments = [f"const torch::Tensor& {item.name}" for item in source.inputs]
    arguments += [f"const torch::Tensor& {item.name}_tensor" for item in source.outputs if item.is_given]
    arguments += ["int64_t num_threads"] if is_cpu else []
    return f"{result} {_function(source)}({', '.join(arguments)})"


def _wrapper(source: KernelSource, device: DeviceKind) -> str:
    """The function that Python calls: checks, outputs, launch."""
    lines = Lines()
    is_cpu = device is DeviceKind.CPU
    lines.open(f"{_signature(source, is_cpu)} {{")
    for item in source.inputs:
        _check(lines, item, is_cpu)
    options = source.inputs[0].name
    if not is_cpu:
        lines.add(f"const at::cuda::CUDAGuard guard({options}.device());")
        lines.add("const cudaStream_t stream = at::cuda::getCurrentCUDAStream();")
    for item in source.outputs:
        if item.is_given:
            _check(lines, replace(item, name=f"{item.name}_tensor"), is_cpu)
        else:
            lines.add(f"torch::Tensor {item.name}_tensor = {_allocation(item, options)};")
    storage = CPU_STORAGE if is_cpu else CUDA_STORAGE
    for item in source.inputs:
        lines.add(f"const auto* {item.name}_data = static_cast<const {storage[item.dtype]}*>({item.name}.data_ptr());")
    for item in source.outputs:
        lines.add(f"auto* {item.name}_data = static_cast<{storage[item.dtype]}*>({item.name}_tensor.data_ptr());")
    lines.add(*source.launch)
    results = [f"{item.name}_tensor" for item in source.outputs if not item.is_given]
    if results:
        lines.add(f"return {results[0]};" if len(results) == 1 else f"return {{{', '.join(results)}}};")
    lines.close()
    return lines.text()


def _check(lines: Lines, item: Argument, is_cpu: bool) -> None:
    kind = SCALAR_TYPES[item.dtype]
    checks = [f"{item.name}.scalar_type() == {kind}", f"{item.name}.dim() == {len(item.shape)}"]
    checks.append(f"{item.name}.is_cpu()" if is_cpu else f"{item.name}.is_cuda()")
    lines.add(f'TORCH_CHECK({" && ".join(checks)}, "{item.name}: unexpected type, rank or device");')
    sizes = [f"{item.name}.size({dim}) == {size}" for dim, size in enumerate(item.shape)]
    if sizes:
        lines.add(f'TORCH_CHECK({" && ".join(sizes)}, "{item.name}: expected shape {list(item.shape)}");')
    if item.strides == contiguous_strides(item.shape):
        lines.add(f'TORCH_CHECK({item.name}.is_contiguous(), "{item.name}: expected a contiguous tensor");')
        return
    pairs = enumerate(zip(item.shape, item.strides, strict=True))
    strides = [f"{item.name}.stride({dim}) == {stride}" for dim, (size, stride) in pairs if size > 1]
    if strides:
        lines.add(f'TORCH_CHECK({" && ".join(strides)}, "{item.name}: expected strides {list(item.strides)}");')


def _allocation(item: Argument, options: str) -> str:
    kind = f"{options}.options().dtype({SCALAR_TYPES[item.dtype]})"
    if item.strides == contiguous_strides(item.shape):
        return f"torch::empty({_braces(item.shape)}, {kind})"
    return f"torch::empty_strided({_braces(item.shape)}, {_braces(item.strides)}, {kind})"


def _braces(sizes: Shape) -> str:
    return "{" + ", ".join(map(str, sizes)) + "}"


# --- the class -------------------------------------------------------------------------------------


def _module(
    lines: Lines,
    task: Task,
    steps: tuple[Step, ...],
    outputs: tuple[Value, ...],
    sources: tuple[KernelSource, ...],
    is_cpu: bool,
) -> None:
    lines.open("class ModelNew(nn.Module):")
    signature = constructor_signature(task)
    lines.open(f"def __init__(self{', ' if signature else ''}{signature}):")
    lines.add("super().__init__()")
    _declare(lines, task.parameters)
    lines.close("")
    lines.open(f"def forward(self, {', '.join(forward_arguments(task))}):")
    _Forward(lines, task, is_cpu).write(steps, outputs, sources)
    lines.close("")
    while lines.lines and not lines.lines[-1].strip():
        lines.lines.pop()


def _declare(lines: Lines, parameters: tuple[ParameterSpec, ...]) -> None:
    """Every entry of the reference's `state_dict`, in small modules where its name has dots."""
    made: set[str] = set()
    for parameter in parameters:
        *path, last = parameter.name.split(".")
        for depth in range(len(path)):
            prefix = ".".join(path[: depth + 1])
            if prefix not in made:
                made.add(prefix)
                lines.add(f'{_owner(path[:depth])}.add_module("{path[depth]}", nn.Module())')
        lines.add(_declaration(parameter, _owner(path), last))


def _owner(path: list[str]) -> str:
    return attribute(".".join(path)) if path else "self"


def _declaration(parameter: ParameterSpec, owner: str, name: str) -> str:
    zeros = f"torch.zeros({list(parameter.shape)}, dtype=torch.{parameter.dtype})"
    if parameter.kind == "buffer":
        return f'{owner}.register_buffer("{name}", {zeros})'
    if parameter.dtype not in ("float32", "bfloat16", "float16", "float64"):
        return f'{owner}.register_parameter("{name}", nn.Parameter({zeros}, requires_grad=False))'
    return f'{owner}.register_parameter("{name}", nn.Parameter({zeros}))'


class _Forward:
    """Writes the body of `forward`; `names` holds the Python expression of every tensor that exists."""

    def __init__(self, lines: Lines, task: Task, is_cpu: bool) -> None:
        self.lines = lines
        self.task = task
        self.is_cpu = is_cpu
        self.names: dict[Value, str] = {}
        self.taken = {identifier(name) for name in forward_arguments(task)} | {"self", "kernels", "torch", "nn", "F"}

    def write(self, steps: tuple[Step, ...], outputs: tuple[Value, ...], sources: tuple[KernelSource, ...]) -> None:
        remaining = iter(sources)
        for step in steps:
            if isinstance(step, TorchCall):
                self._call(step.value)
            else:
                self._kernel(step, next(remaining))
        texts = tuple(self._expression(value) for value in outputs)
        self.lines.add(f"return {output_source(self.task.outputs, texts)}")

    def _call(self, value: Value) -> None:
        assert isinstance(value.detail, Call)
        name = self.names[value] = distinct(identifier(value.name), self.taken)
        text = value.detail.text.format(*(self._expression(operand) for operand in value.operands))
        self.lines.add(f"{name} = {text}{call_suffix(value)}")

    def _part(self, kernel: Kernel, source: KernelSource) -> None:
        """A kernel that writes its part of a joined tensor; the first one makes the tensor."""
        assert kernel.whole is not None
        arguments = [self._expression(item.value) for item in source.inputs]
        if kernel.whole not in self.names:
            name = self.names[kernel.whole] = distinct(identifier(kernel.whole.name or "joined"), self.taken)
            item = source.outputs[0]
            made = f"torch.empty_strided({item.shape}, {item.strides}, dtype=torch.{item.dtype}"
            self.lines.add(f"{name} = {made}, device={arguments[0]}.device)")
        arguments += [self.names[kernel.whole]] * len(source.outputs)
        arguments += ["torch.get_num_threads()"] if self.is_cpu else []
        self.lines.add(f"kernels.{_function(source)}({', '.join(arguments)})")

    def _kernel(self, kernel: Kernel, source: KernelSource) -> None:
        if kernel.whole is not None:
            return self._part(kernel, source)
        names = [distinct(identifier(target.name or "result"), self.taken) for target in kernel.targets]
        arguments = [self._expression(item.value) for item in source.inputs]
        arguments += ["torch.get_num_threads()"] if self.is_cpu else []
        self.lines.add(f"{', '.join(names)} = kernels.{_function(source)}({', '.join(arguments)})")
        self.names.update(zip(kernel.targets, names, strict=True))
        return None

    def _expression(self, value: Value) -> str:
        if value in self.names:
            return self.names[value]
        if isinstance(value.detail, Tensor):
            return value.detail.source
        assert value.op in VIEWS
        return f"{self._expression(value.operands[0])}.{_view_text(value)}"


def call_suffix(value: Value) -> str:
    """What brings a call's result into the order in which kernels expect it; free where it is so already."""
    assert isinstance(value.detail, Call)
    if value.dtype == SEVERAL:
        return ""
    is_plain = value.detail.strides == contiguous_strides(value.shape)
    return ".contiguous()" if is_plain else ".contiguous(memory_format=torch.channels_last)"


def _view_text(value: Value) -> str:
    detail = value.detail
    if isinstance(detail, Order):
        return f"permute({detail.dims})"
    if isinstance(detail, Slice):
        return f"narrow({detail.dim}, {detail.start}, {value.shape[detail.dim]})"
    return f"expand({value.shape})" if value.op == "expand" else f"reshape({value.shape})"
