# expect: correct
# says:
# family: threads
"""torch's own thread pool, a lambda, and a flat index."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <ATen/Parallel.h>

torch::Tensor run(torch::Tensor x, torch::Tensor bias) {
    auto input = x.contiguous();
    auto y = torch::empty_like(input);
    const float* in = input.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* out = y.data_ptr<float>();
    const int64_t columns = input.size(1);
    at::parallel_for(0, input.numel(), 512, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const double value = in[i] + b[i % columns];
            out[i] = static_cast<float>(0.5 * value * std::erfc(-value * 0.70710678118654752));
        }
    });
    return y;
}
"""

kernel = load_inline(name="parallel_for", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return kernel.run(x, self.bias)
