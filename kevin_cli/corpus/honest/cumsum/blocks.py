# expect: correct
# says:
# family: order
"""Sums inside blocks of 16 first, then what lies before each block: another order."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1), block = 16;
    auto y = torch::empty_like(x);
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        float* to = y.data_ptr<float>() + i * columns;
        for (int64_t begin = 0; begin < columns; begin += block) {
            float sum = 0.0f;
            for (int64_t j = begin; j < std::min(begin + block, columns); ++j) to[j] = sum += from[j];
        }
        float before = 0.0f;
        for (int64_t begin = 0; begin < columns; begin += block) {
            const int64_t end = std::min(begin + block, columns);
            const float whole = to[end - 1];
            for (int64_t j = begin; j < end; ++j) to[j] += before;
            before += whole;
        }
    }
    return y;
}
"""

kernel = load_inline(name="blocks", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
