"""The part of a package that makes the kernel an operator of torch, so that compilers see it as one step.

`torch.compile`, `torch.export` and CUDA graphs meet `torch.ops.kevin.<name>_<content>`, which takes the
inputs and the weights as two lists and returns the outputs as a list. The name carries the content, so that
several packages and several versions of one live side by side. Under tracing only shapes are known: what
depends on addresses is put right when the operator runs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from . import _contract

NAMESPACE = "kevin"
MAX_KERNELS = 8
"""Instances of the kernel that are kept for different weights."""
Make = Callable[[list[Any]], Any]


class Operator:
    """One package's operator: the call, and the kernels it keeps for the weights it has seen."""

    def __init__(self, record: dict[str, Any], make: Make) -> None:
        device = record["contract"]["device"]
        self._record, self._make = record, make
        self._inputs = [_contract.Spec(spec, device) for spec in record["contract"]["inputs"]]
        self._weights = [_contract.Spec(spec, device) for spec in record["parameters"]]
        self._outputs = [_contract.Spec(spec, device) for spec in record["output_specs"]]
        self._kernels: OrderedDict[Any, Any] = OrderedDict()
        self.call = self._register(f"{NAMESPACE}::{record['name']}_{record['candidate'][:12]}")

    def _register(self, name: str) -> Any:
        """By its parts and not by `custom_op`, whose Python around every call costs as much as the rest. There is no
        derivative: the operator is only called where no gradient is asked for."""
        short = name.partition("::")[2]
        if hasattr(getattr(torch.ops, NAMESPACE), short):  # the package was imported under another name too
            return getattr(getattr(torch.ops, NAMESPACE), short)
        tags = (torch.Tag.pt2_compliant_tag,)
        torch.library.define(name, "(Tensor[] inputs, Tensor[] weights) -> Tensor[]", tags=tags)
        torch.library.impl(name, "default", self._run)
        torch.library.register_fake(name, self._fake)
        return getattr(getattr(torch.ops, NAMESPACE), short)

    def _run(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        inputs = [spec.conform(tensor) for spec, tensor in zip(self._inputs, inputs, strict=True)]
        weights = [spec.conform(tensor) for spec, tensor in zip(self._weights, weights, strict=True)]
        with torch.no_grad():
            result = self._kernel(weights)(*_contract.assemble(self._record["inputs"], inputs))
        found: list[Any] = []
        _contract.matches(self._record["outputs"], result, found)
        taken = {tensor.untyped_storage().data_ptr() for tensor in (*inputs, *weights)}
        return [self._own(spec, tensor, taken) for spec, tensor in zip(self._outputs, found, strict=True)]

    def _fake(self, inputs: list[torch.Tensor], weights: list[torch.Tensor]) -> list[torch.Tensor]:
        device = (inputs or weights)[0].device
        return [spec.empty(device) for spec in self._outputs]

    def _own(self, spec: _contract.Spec, tensor: torch.Tensor, taken: set[int]) -> torch.Tensor:
        """An operator's result is new memory, one storage for each, laid out as the original's."""
        place = tensor.untyped_storage().data_ptr()
        if tensor.stride() == spec.strides and place not in taken:
            taken.add(place)
            return tensor
        return spec.empty(tensor.device).copy_(tensor)

    def _kernel(self, weights: list[torch.Tensor]) -> Any:
        key = tuple((t.data_ptr(), 0 if t.is_inference() else t._version, t.get_device()) for t in weights)
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._kernels[key] = self._make(weights)
            if len(self._kernels) > MAX_KERNELS:
                self._kernels.popitem(last=False)
        return kernel
