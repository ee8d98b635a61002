# expect: correct
# says:
# family: binding
"""Compiles when it is constructed, not when it is imported."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

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
            const float value = from[j] * w[j] + b[j];
            to[j] = value < 0.0f ? 0.0f : value;
        }
    }
    return y;
}
"""


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.kernel = load_inline(name="late", cpp_sources=SOURCE, functions=["run"])

    def forward(self, x):
        return self.kernel.run(x, self.weight, self.bias)
