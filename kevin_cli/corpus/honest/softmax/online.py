# expect: correct
# says:
# family: order
"""One pass for largest and sum, rescaled on the way: another order of all operations."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        float* to = y.data_ptr<float>() + i * columns;
        float largest = -INFINITY, sum = 0.0f;
        for (int64_t j = 0; j < columns; ++j) {
            const float next = std::max(largest, from[j]);
            sum = sum * std::exp(largest - next) + std::exp(from[j] - next);
            largest = next;
        }
        for (int64_t j = 0; j < columns; ++j) to[j] = std::exp(from[j] - largest) / sum;
    }
    return y;
}
"""

kernel = load_inline(name="online", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
