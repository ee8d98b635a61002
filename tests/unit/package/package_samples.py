"""A real module with weights, a real kernel for it, and the task that it is."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from kevin_cli.types import (
    Candidate,
    Contract,
    DeviceKind,
    Domain,
    ParameterSpec,
    Target,
    Task,
    TensorSpec,
    Tree,
)

Import = Callable[..., ModuleType]
"""What the fixture `package` gives."""

REFERENCE = '''import torch
from torch import nn


class Scale(nn.Module):
    """Scales every column."""

    def __init__(self, width: int, offset: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.offset = offset

    def forward(self, x):
        return x * self.weight + self.offset


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return [16, 0.5]
'''

KERNEL = """import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = '''
#include <torch/extension.h>
torch::Tensor scale(torch::Tensor x, torch::Tensor w, double offset) {
  auto y = torch::empty_like(x);
  const float* px = x.data_ptr<float>();
  const float* pw = w.data_ptr<float>();
  float* py = y.data_ptr<float>();
  const int64_t rows = x.size(0), columns = x.size(1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) py[i * columns + j] = px[i * columns + j] * pw[j] + (float)offset;
  return y;
}
'''
extension = load_inline(name="scale_extension", cpp_sources=source, functions=["scale"], extra_cflags=["-O1"])


class ModelNew(nn.Module):
    def __init__(self, width, offset=0.0):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(width))
        self.offset = offset

    def forward(self, x):
        ModelNew.calls += 1
        return extension.scale(x, self.gain, self.offset)


ModelNew.calls = 0
"""
"""Counts its calls, so that a test can tell which of the two modules ran."""

PYTHON_KERNEL = KERNEL[: KERNEL.index("from torch.utils")] + KERNEL[KERNEL.index("class ModelNew") :].replace(
    "extension.scale(x, self.gain, self.offset)", "torch.addcmul(torch.full_like(x, self.offset), x, self.gain)"
)
"""The same without an extension: for tests of the guard, which need no compiler."""


def candidate_of(source: str) -> Candidate:
    return Candidate(source=source, digest=hashlib.sha256(source.encode()).hexdigest())


def task_at(path: Path) -> Task:
    spec = TensorSpec(shape=(8, 16), dtype="float32", strides=(16, 1))
    one_tensor = Tree(kind="tensor", index=0)
    return Task(
        name="scale",
        digest="0" * 64,
        target=Target(path=str(path), class_name="Scale", python=sys.executable),
        source=REFERENCE,
        init=Tree(kind="tuple", items=(Tree(kind="value", value=16), Tree(kind="value", value=0.5))),
        init_keywords=Tree(kind="dict"),
        inputs=Tree(kind="tuple", items=(one_tensor,)),
        outputs=one_tensor,
        output_specs=(spec,),
        parameters=(ParameterSpec(name="weight", shape=(16,), dtype="float32", kind="parameter"),),
        contract=Contract(
            device=DeviceKind.CPU,
            inputs=(
                TensorSpec(
                    shape=(8, 16), dtype="float32", strides=(16, 1), domain=Domain(kind="real", low=-3.0, high=3.0)
                ),
            ),
        ),
        graph=None,
    )
