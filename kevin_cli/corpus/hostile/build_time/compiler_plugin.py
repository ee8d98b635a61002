# expect: build_failed, rejected
# says:
# task: scale_relu
"""Asks the compiler to load a library of its own."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    const int64_t columns = x.size(1);
    for (int64_t i = 0; i < x.numel(); ++i) {
        const float value = x.data_ptr<float>()[i] * weight.data_ptr<float>()[i % columns] + bias.data_ptr<float>()[i % columns];
        y.data_ptr<float>()[i] = value < 0.0f ? 0.0f : value;
    }
    return y;
}
"""

kernel = load_inline(name="compiler_plugin", cpp_sources=SOURCE, functions=["run"], extra_cflags=["-fplugin=/tmp/evil.so"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return kernel.run(x, self.weight, self.bias)
