"""The high-precision reference: the user's module in float64 on the same, already rounded, values.

In this order, and the verdict says which one it was:
  `float64`            a deep copy, `.double()`, on the device; casts that the module makes to a shorter
                       type on the way (`.float()`, a float32 constant) are redirected to float64, which
                       the text then says
  `float64 on cpu`     the same on the CPU: no float64 kernel on the device, or not enough memory
  `float32`            nothing of that runs: the module in strict float32 (TF32 off), and the floor of
                       the bound is doubled

Casts to float8 and integer types are kept: a module that quantises means it.
Not promised: exactness where a module looks at bits (`x.view(torch.int32)`) or calls its own kernels;
such modules end at `float32`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from kevin_cli.harness.reference.faults import TaskFault, user_code
from kevin_cli.harness.reference.subject import Subject, clone, construct, flat

LOWER = (torch.float32, torch.float16, torch.bfloat16)
RAISED = {torch.complex64: torch.complex128, **dict.fromkeys(LOWER, torch.float64)}


@dataclass(frozen=True, slots=True)
class HighPrecision:
    """Outputs to compare with, and how they were had."""

    outputs: list[torch.Tensor]
    how: str

    @property
    def floor_factor(self) -> float:
        return 2.0 if self.how.startswith("float32") else 1.0


class Reference64:
    """Runs the high-precision reference; remembers which way works."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._ways: list[Callable[[Sequence[torch.Tensor]], HighPrecision]] = [self._on_device, self._strict]
        if subject.device.type == "cuda":
            self._ways.insert(1, self._on_cpu)
        self._copies: dict[tuple[str, torch.dtype], tuple[int, nn.Module]] = {}

    def run(self, inputs: Sequence[torch.Tensor]) -> HighPrecision:
        """Raises `TaskFault` only when not even the module's own precision runs."""
        while len(self._ways) > 1:
            with contextlib.suppress(TaskFault):
                return self._ways[0](inputs)
            self._ways.pop(0)
            self._copies.clear()
        return self._ways[0](inputs)

    def _on_device(self, inputs: Sequence[torch.Tensor]) -> HighPrecision:
        return self._float64(inputs, self._subject.device, "float64")

    def _on_cpu(self, inputs: Sequence[torch.Tensor]) -> HighPrecision:
        return self._float64(inputs, torch.device("cpu"), "float64 on cpu")

    def _float64(self, inputs: Sequence[torch.Tensor], device: torch.device, how: str) -> HighPrecision:
        module = self._copy(device, torch.float64)
        raised = [_raise_tensor(clone(tensor, device), torch.float64) for tensor in inputs]
        self._subject.restore_state(module)
        redirect = RedirectCasts()
        with _default_dtype(torch.float64):
            outputs = self._subject.call(module, raised, mode=redirect)
        self._must_fit(outputs)
        return HighPrecision(outputs, f"{how}, casts redirected" if redirect.redirected else how)

    def _strict(self, inputs: Sequence[torch.Tensor]) -> HighPrecision:
        module = self._copy(self._subject.device, torch.float32)
        raised = [_raise_tensor(clone(tensor), torch.float32) for tensor in inputs]
        self._subject.restore_state(module)
        with _no_tf32():
            return HighPrecision(self._subject.call(module, raised), "float32")

    def _copy(self, device: torch.device, dtype: torch.dtype) -> nn.Module:
        """The module with the current weights, in `dtype`; tensors that are wider stay as they are."""
        key, version = (device.type, dtype), self._subject.weights_version
        if key not in self._copies or self._copies[key][0] != version:
            self._copies[key] = version, self._new_copy(device, dtype)
        return self._copies[key][1]

    def _new_copy(self, device: torch.device, dtype: torch.dtype) -> nn.Module:
        module = self._duplicate().to(device)
        with user_code("a copy in higher precision", self._subject.path, where="reference"):
            module._apply(lambda tensor: _raise_tensor(tensor, dtype))
        return module.train(self._subject.training)

    def _duplicate(self) -> nn.Module:
        with contextlib.suppress(TaskFault), user_code("copy.deepcopy", self._subject.path, where="reference"):
            return copy.deepcopy(self._subject.module)
        module = construct(self._subject.loaded).to(self._subject.device)
        module.load_state_dict(self._subject.module.state_dict())
        return module

    def _must_fit(self, outputs: Sequence[torch.Tensor]) -> None:
        """The same shapes, and no float of a shorter type left: else this way is of no use."""
        specs = self._subject.output_specs
        for tensor, spec in zip(outputs, specs, strict=True):
            if tuple(tensor.shape) != tuple(spec["shape"]) or tensor.dtype in LOWER:
                raise TaskFault("the module does another computation in float64", "", "reference")


class RedirectCasts(TorchDispatchMode):  # type: ignore[misc]
    """Keeps a computation in float64: a shorter float type that is asked for, or met, is raised."""

    def __init__(self) -> None:
        super().__init__()
        self.redirected = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.view.dtype:
            raise TaskFault("the module looks at the bits of its numbers", "", "reference")
        given = (args, kwargs or {})
        if func._schema.is_mutable and any(_is_lower(tensor) for tensor in _written(func, *given)):
            raise TaskFault("the module writes into a float32 tensor", "", "reference")
        args, kwargs = tree_map(self._raise, given)
        return tree_map(self._raise, func(*args, **kwargs))

    def _raise(self, value: Any) -> Any:
        if isinstance(value, torch.dtype) and value in RAISED:
            self.redirected = True
            return RAISED[value]
        if isinstance(value, torch.Tensor) and value.dtype in RAISED:
            self.redirected = True
            return value.to(RAISED[value.dtype])
        return value


def _is_lower(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in RAISED


def _written(func: Any, args: Any, kwargs: Any) -> Iterator[Any]:
    """The arguments that an operator writes to, by its schema."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield args[position] if position < len(args) else kwargs.get(argument.name)


def _raise_tensor(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A floating tensor in `dtype` if that is wider, with the same strides; others as they are."""
    if tensor.dtype is torch.complex64 and dtype is torch.float64:
        dtype = torch.complex128
    elif tensor.dtype not in LOWER or tensor.dtype is dtype:
        return tensor
    if tensor.numel() == 0:
        return tensor.to(dtype)
    return flat(tensor).to(dtype).as_strided(tensor.shape, tensor.stride())


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _no_tf32() -> Iterator[None]:
    matmul, cudnn = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, cudnn
