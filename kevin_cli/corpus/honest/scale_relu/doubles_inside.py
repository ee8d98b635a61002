# expect: correct
# says:
# family: rounding
"""Computes in float64 and rounds once."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* out = y.data_ptr<float>();
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = in + i * columns;
        float* to = out + i * columns;
        for (int64_t j = 0; j < columns; ++j) {
            const float value = static_cast<float>(static_cast<double>(from[j]) * w[j] + b[j]);
            to[j] = value < 0.0f ? 0.0f : value;
        }
    }
    return y;
}
"""

kernel = load_inline(name="doubles_inside", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return kernel.run(x, self.weight, self.bias)
