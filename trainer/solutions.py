"""Plain kernels for generated tasks without a heavy operation: the short answers that a small model starts from.

The embedded proposer's programs are too long for a model of 135 million weights and a budget of a few hundred
tokens, so the warm start of `h200-mini` learns from these: one page, in one of several manners that differ in speed
(one kernel for everything or one for each operation, four values at once, the size of a block). All are meant to be
right and some are slow; which pays is left for the policy to find out by its reward. The judge has the last word on
every one of them: nothing is trained on that it did not call correct.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from kevin_cli.types import DeviceKind
from trainer.generate import Sketch
from trainer.operations import Operation

THREADS = (32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a plain kernel is written."""

    is_fused: bool
    threads: int
    vector: int
    """Values that one thread takes at once: 1 or 4 (CUDA, without operations over rows)."""


def draw_manner(sketch: Sketch, randomness: random.Random) -> Manner:
    """Any manner that fits the sketch, the better and the worse ones alike."""
    over_rows = _row_operation(sketch) is not None
    is_fused = over_rows or randomness.random() < 0.5
    vector = randomness.choice((1, 4)) if is_fused and not over_rows else 1
    return Manner(is_fused, randomness.choice(THREADS), vector)


def answer(sketch: Sketch, device: DeviceKind, manner: Manner) -> str:
    """A completion: the program, then what it does in a sentence."""
    return f"```python\n{program(sketch, device, manner)}```\n\n{_summary(sketch, device, manner)}"


def program(sketch: Sketch, device: DeviceKind, manner: Manner) -> str:
    """The candidate. Raises `ValueError` for a sketch with a heavy operation."""
    if any(operation.kind in ("heavy", "pool") for operation in sketch.operations):
        raise ValueError(f"no plain kernel for {sketch.sequence}")
    source = _cuda(sketch, manner) if device is DeviceKind.CUDA else _cpu(sketch, manner)
    tensors = _tensors(sketch)
    signature = f"torch::Tensor run({', '.join(f'torch::Tensor {name}' for name in tensors)})"
    includes = "#include <torch/extension.h>\n" + ("" if device is DeviceKind.CUDA else "#include <cmath>\n")
    sources = f'cpp_sources="{signature};", cuda_sources=source' if device is DeviceKind.CUDA else "cpp_sources=source"
    flags = "" if device is DeviceKind.CUDA else ', extra_cflags=["-O3", "-fopenmp"], extra_ldflags=["-fopenmp"]'
    vectors = [name for name in ("bias", "gain") if name in tensors]
    return _PROGRAM.format(
        source=includes + source.replace("SIGNATURE", signature),
        sources=sources + flags,
        init="".join(f"        self.{name} = nn.Parameter(torch.zeros({sketch.columns}))\n" for name in vectors),
        arguments=", ".join(name for name in tensors if name not in vectors),
        call=", ".join(f"self.{name}" if name in vectors else name for name in tensors),
    )


_PROGRAM = '''import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
{source}"""
module = load_inline(name="fast", {sources}, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
{init}
    def forward(self, {arguments}):
        return module.run({call})
'''


def _summary(sketch: Sketch, device: DeviceKind, manner: Manner) -> str:
    number = "one kernel" if manner.is_fused else "one kernel for each operation"
    if device is DeviceKind.CPU:
        return f"{', '.join(sketch.names)}: {number}."
    width = ", four values a thread" if manner.vector == 4 else ""
    return f"{', '.join(sketch.names)}: {number}, {manner.threads} threads a block{width}."


def _tensors(sketch: Sketch) -> list[str]:
    """Arguments of `run`, in order."""
    used = [name for name in ("bias", "gain") if name in sketch.names]
    second = ["y"] if any(operation.argument == "tensor" for operation in sketch.operations) else []
    return ["x", *second, *used]


def _row_operation(sketch: Sketch) -> int | None:
    places = [n for n, operation in enumerate(sketch.operations) if operation.kind in ("row", "reduce")]
    return places[0] if places else None


def _steps(operations: tuple[Operation, ...], indent: str) -> str:
    return "".join(f"{indent}v = {operation.cuda};\n" for operation in operations)


def _pointers(tensors: list[str], extra: str = "float* out") -> str:
    return ", ".join([*(f"const float* {name}" for name in tensors), extra])


def _data(tensors: list[str]) -> str:
    return ", ".join(f"{name}.data_ptr<float>()" for name in (*tensors, "out"))


# --- CUDA ------------------------------------------------------------------------------------------


def _cuda(sketch: Sketch, manner: Manner) -> str:
    if _row_operation(sketch) is not None:
        return _cuda_rows(sketch, manner)
    if manner.is_fused:
        return _cuda_element("kernel", sketch.operations, _tensors(sketch), manner) + _cuda_run(sketch, manner)
    kernels = [
        _cuda_element(f"kernel{n}", (operation,), _tensors(sketch), manner)
        for n, operation in enumerate(sketch.operations)
    ]
    return "".join(kernels) + _cuda_run(sketch, manner)


def _cuda_element(name: str, operations: tuple[Operation, ...], tensors: list[str], manner: Manner) -> str:
    head = f"\n__global__ void {name}({_pointers(tensors)}, int n, int cols) {{\n"
    column = "int c = i % cols;\n" if any("[c]" in operation.cuda for operation in operations) else ""
    if manner.vector == 1:
        place = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n" + _indented(column, 2)
        return f"{head}{place}  float v = x[i];\n{_steps(operations, '  ')}  out[i] = v;\n}}\n"
    return (
        f"{head}  int at = (blockIdx.x * blockDim.x + threadIdx.x) * 4;\n  if (at >= n) return;\n"
        "  float4 four = *(const float4*)(x + at);\n  float* p = &four.x;\n"
        f"#pragma unroll\n  for (int k = 0; k < 4; k++) {{\n    int i = at + k;\n{_indented(column, 4)}"
        f"    float v = p[k];\n{_steps(operations, '    ')}    p[k] = v;\n  }}\n"
        "  *(float4*)(out + at) = four;\n}\n"
    )


def _indented(line: str, width: int) -> str:
    return " " * width + line if line else ""


def _cuda_run(sketch: Sketch, manner: Manner) -> str:
    tensors, per_block = _tensors(sketch), manner.threads * manner.vector
    names = ["kernel"] if manner.is_fused else [f"kernel{n}" for n in range(len(sketch.names))]
    launches = ""
    for n, name in enumerate(names):
        data = _data(tensors) if n == 0 else _data(tensors).replace("x.data_ptr", "out.data_ptr", 1)
        launches += f"  {name}<<<(n + {per_block - 1}) / {per_block}, {manner.threads}>>>({data}, n, cols);\n"
    return (
        "\nSIGNATURE {\n  auto out = torch::empty_like(x);\n  int n = x.numel();\n  int cols = x.size(1);\n"
        f"{launches}  return out;\n}}\n"
    )


def _cuda_rows(sketch: Sketch, manner: Manner) -> str:
    """One block a row: a reduction in shared memory for each pass."""
    place = _row_operation(sketch)
    assert place is not None, "asked for a sketch with a row operation"
    before, after = sketch.operations[:place], sketch.operations[place + 1 :]
    operation, tensors = sketch.operations[place], _tensors(sketch)
    out = "torch::empty({x.size(0)}, x.options())" if operation.kind == "reduce" else "torch::empty_like(x)"
    return (
        f"\n#define T {manner.threads}\n{_REDUCE}"
        f"\n__global__ void kernel({_pointers(tensors)}, int cols) {{\n"
        f"  __shared__ float part[T];\n  long row = (long)blockIdx.x * cols;\n"
        f"{_passes(operation, before, after, _CUDA_LOOP)}}}\n"
        f"\nSIGNATURE {{\n  auto out = {out};\n  int cols = x.size(1);\n"
        f"  kernel<<<x.size(0), T>>>({_data(tensors)}, cols);\n  return out;\n}}\n"
    )


_REDUCE = """
__device__ float reduce(float* part, float v, bool is_max) {
  int t = threadIdx.x;
  part[t] = v;
  __syncthreads();
  for (int k = T / 2; k > 0; k /= 2) {
    if (t < k) part[t] = is_max ? fmaxf(part[t], part[t + k]) : part[t] + part[t + k];
    __syncthreads();
  }
  float all = part[0];
  __syncthreads();
  return all;
}
"""


@dataclass(frozen=True, slots=True)
class _Loop:
    """How a pass over a row is written on a target."""

    head: str
    total: str
    """A reduction of `NAME` over the row; `IS_MAX` says which."""
    once: str
    """Before a statement that one thread does for the row."""
    row: str
    """The row's number."""
    number: str
    """The type that a row is summed in: one thread sums a whole row on the CPU, a small part of it on a GPU."""


_CUDA_LOOP = _Loop(
    head="  for (int c = threadIdx.x; c < cols; c += T) {\n    long i = row + c;\n",
    total="  NAME = reduce(part, NAME, IS_MAX);\n",
    once="  if (threadIdx.x == 0) ",
    row="blockIdx.x",
    number="float",
)
_CPU_LOOP = _Loop(
    head="  for (long c = 0; c < cols; c++) {\n    long i = row + c;\n", total="", once="  ", row="r", number="double"
)


def _passes(operation: Operation, before: tuple[Operation, ...], after: tuple[Operation, ...], loop: _Loop) -> str:
    value = f"    float v = x[i];\n{_steps(before, '    ')}"

    def total(name: str, start: str, update: str, *, is_max: bool = False) -> str:
        reduced = loop.total.replace("NAME", name).replace("IS_MAX", "true" if is_max else "false")
        return f"  {loop.number} {name} = {start};\n{loop.head}{value}    {update}\n  }}\n{reduced}"

    def write(statement: str) -> str:
        return f"{loop.head}{value}    v = {statement};\n{_steps(after, '    ')}    out[i] = v;\n  }}\n"

    largest = total("top", "-INFINITY", "top = fmaxf(top, v);", is_max=True)
    exponentials = total("sum", "0.0f", "sum += expf(v - top);")
    plain_sum, squares = total("sum", "0.0f", "sum += v;"), total("sum", "0.0f", "sum += v * v;")
    spread = "  float mean = sum / cols;\n" + total("var", "0.0f", "var += (v - mean) * (v - mean);")

    def once(statement: str) -> str:
        return f"{loop.once}out[{loop.row}] = {statement};\n"

    return {
        "softmax": largest + exponentials + write("expf(v - top) / sum"),
        "rms_norm": squares + "  float scale = rsqrtf(sum / cols + 1e-6f);\n" + write("v * scale"),
        "layer_norm": plain_sum
        + spread
        + "  float scale = rsqrtf(var / cols + 1e-5f);\n"
        + write("(v - mean) * scale"),
        "mean": plain_sum + once("sum / cols"),
        "maximum": largest + once("top"),
        "logsumexp": largest + exponentials + once("top + logf(sum)"),
    }[operation.name]


# --- CPU -------------------------------------------------------------------------------------------


def _cpu(sketch: Sketch, manner: Manner) -> str:
    place, tensors = _row_operation(sketch), _tensors(sketch)
    pointers = "".join(f"  const float* {name} = {name}_tensor.data_ptr<float>();\n" for name in tensors)
    body = _cpu_elements(sketch, manner) if place is None else _cpu_rows(sketch, place)
    is_reduction = place is not None and sketch.operations[place].kind == "reduce"
    out = "torch::empty({x_tensor.size(0)}, x_tensor.options())" if is_reduction else "torch::empty_like(x_tensor)"
    return (
        f"\ntorch::Tensor run({', '.join(f'torch::Tensor {name}_tensor' for name in tensors)}) {{\n"
        f"  auto out_tensor = {out};\n{pointers}  float* out = out_tensor.data_ptr<float>();\n"
        f"  long rows = x_tensor.size(0), cols = x_tensor.size(1);\n{body}  return out_tensor;\n}}\n"
    )


def _cpu_elements(sketch: Sketch, manner: Manner) -> str:
    groups = [sketch.operations] if manner.is_fused else [(operation,) for operation in sketch.operations]
    loops = ""
    for n, operations in enumerate(groups):
        source = "x" if n == 0 else "out"
        loops += (
            "#pragma omp parallel for\n  for (long r = 0; r < rows; r++)\n  for (long c = 0; c < cols; c++) {\n"
            f"    long i = r * cols + c;\n    float v = {source}[i];\n"
            f"{_steps(operations, '    ')}    out[i] = v;\n  }}\n"
        )
    return loops


def _cpu_rows(sketch: Sketch, place: int) -> str:
    before, after = sketch.operations[:place], sketch.operations[place + 1 :]
    passes = _passes(sketch.operations[place], before, after, _CPU_LOOP).replace("rsqrtf(", "1.0f / sqrtf(")
    return f"#pragma omp parallel for\n  for (long r = 0; r < rows; r++) {{\n  long row = r * cols;\n{passes}  }}\n"
