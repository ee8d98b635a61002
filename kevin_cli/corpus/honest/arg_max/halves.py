# expect: correct
# says:
# family: order
"""The best of each half, then the better of the two; the earlier one when they are equal."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

static int64_t better(const float* from, int64_t a, int64_t b) {
    if (from[a] != from[a]) return a;
    return from[b] > from[a] || from[b] != from[b] ? b : a;
}

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({rows}, x.options().dtype(torch::kLong));
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        int64_t first = 0, second = columns / 2;
        for (int64_t j = 1; j < columns / 2; ++j) first = better(from, first, j);
        for (int64_t j = columns / 2 + 1; j < columns; ++j) second = better(from, second, j);
        y.data_ptr<int64_t>()[i] = better(from, first, second);
    }
    return y;
}
"""

kernel = load_inline(name="halves", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
