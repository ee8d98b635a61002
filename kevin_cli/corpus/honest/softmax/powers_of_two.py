# expect: correct
# says:
# family: rounding
"""exp2 of a scaled difference in place of exp."""

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
        const float largest = *std::max_element(from, from + columns);
        float sum = 0.0f;
        for (int64_t j = 0; j < columns; ++j) sum += to[j] = std::exp2((from[j] - largest) * 1.44269504f);
        for (int64_t j = 0; j < columns; ++j) to[j] /= sum;
    }
    return y;
}
"""

kernel = load_inline(name="powers_of_two", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
