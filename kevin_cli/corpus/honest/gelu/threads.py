# expect: correct
# says:
# family: threads
"""Threads of its own that are all joined before the call returns."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <thread>

static void part(const float* in, const float* b, float* out, int64_t columns, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
        const float value = in[i] + b[i % columns];
        out[i] = 0.5f * value * (1.0f + std::erf(value * 0.70710678f));
    }
}

torch::Tensor run(torch::Tensor x, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    const int64_t half = x.numel() / 2;
    const float* in = x.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    std::thread other(part, in, b, y.data_ptr<float>(), x.size(1), half, x.numel());
    part(in, b, y.data_ptr<float>(), x.size(1), 0, half);
    other.join();
    return y;
}
"""

kernel = load_inline(name="threads", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return kernel.run(x, self.bias)
