"""What both code writers hand over: one kernel's C++ or CUDA source and how it is called."""

from __future__ import annotations

from dataclasses import dataclass

from kevin_cli.policies.embedded.details import Shape, Tensor
from kevin_cli.policies.embedded.regions import Kernel
from kevin_cli.policies.embedded.values import Value


@dataclass(frozen=True, slots=True)
class Argument:
    """One pointer argument of a kernel."""

    name: str
    shape: Shape
    strides: Shape
    dtype: str
    value: Value
    """What it holds: a tensor that exists, or a target."""
    is_given: bool = False
    """For outputs: whether the caller made the tensor, of which the kernel writes a part."""


def input_argument(name: str, value: Value, kernel: Kernel) -> Argument:
    """A tensor that exists, as a kernel takes it."""
    detail = value.detail
    strides = detail.strides if isinstance(detail, Tensor) else kernel.loaded[value]
    return Argument(name, value.shape, strides, value.dtype, value)


def output_arguments(kernel: Kernel, names: tuple[str, ...]) -> tuple[Argument, ...]:
    """The tensors that a kernel writes."""
    if kernel.whole is not None:
        whole, pairs = kernel.whole, zip(names, kernel.strides, strict=True)
        return tuple(Argument(name, whole.shape, strides, whole.dtype, whole, is_given=True) for name, strides in pairs)
    stores = zip(names, kernel.program.stores, kernel.strides, strict=True)
    return tuple(Argument(name, s.target.shape, strides, s.target.dtype, s.target) for name, s, strides in stores)


@dataclass(frozen=True, slots=True)
class KernelSource:
    """One kernel: `code` defines it over raw pointers, `launch` is the statement that starts it."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    code: str
    launch: tuple[str, ...]
    pieces: frozenset[str]
    """Names of the mathematics that `code` uses."""
    note: str
    """One line for people: what the kernel reads and writes, and so what limits it."""


class Lines:
    """Source lines with indentation: two spaces for C++, four for Python."""

    def __init__(self, indent: str = "  ") -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.indent = indent

    def add(self, *texts: str) -> None:
        for text in texts:
            self.lines.append(text if text.startswith("#") or not text else self.indent * self.depth + text)

    def open(self, text: str) -> None:
        self.add(text)
        self.depth += 1

    def close(self, text: str = "}") -> None:
        self.depth -= 1
        self.add(text)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
