# expect: correct
# says: none of its own kernels ran
"""Its kernel does not compile, and PyTorch answers in its place: right, but no kernel's merit."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor scale_relu(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* out = y.data_ptr<float>();
    int64_t rows = x.size(0), columns = x.size(1);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
            float value = undeclared_name + in[i * columns + j] * w[j] + b[j];
            out[i * columns + j] = value > 0.0f || value != value ? value : 0.0f;
        }
    return y;
}
"""

try:
    fused = load_inline(name="scale_relu", cpp_sources=SOURCE, functions=["scale_relu"], extra_cflags=["-O3"])
except RuntimeError:
    fused = None


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        if fused is None:
            return torch.relu(x * self.weight + self.bias)
        return fused.scale_relu(x, self.weight, self.bias)
