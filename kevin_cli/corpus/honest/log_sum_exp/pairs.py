# expect: correct
# says:
# family: order
"""Merges pairs of logarithms as in a tree, in float64."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>

static double merged(const float* from, int64_t begin, int64_t end) {
    if (end - begin == 1) return from[begin];
    const int64_t middle = (begin + end) / 2;
    const double a = merged(from, begin, middle), b = merged(from, middle, end);
    return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({rows}, x.options());
    for (int64_t i = 0; i < rows; ++i)
        y.data_ptr<float>()[i] = static_cast<float>(merged(x.data_ptr<float>() + i * columns, 0, columns));
    return y;
}
"""

kernel = load_inline(name="pairs", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
