# expect: correct
# says:
# family: style
"""Largest, sum, quotient; the rest of each row apart."""

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
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    const int64_t whole = columns / 8 * 8;
    #pragma omp parallel for
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = in + i * columns;
        float* to = out + i * columns;
        float largest = from[0];
        for (int64_t j = 1; j < columns; ++j) largest = std::max(largest, from[j]);
        float sum = 0.0f;
        for (int64_t j = 0; j < whole; j += 8)
            for (int64_t k = j; k < j + 8; ++k) sum += to[k] = std::exp(from[k] - largest);
        for (int64_t j = whole; j < columns; ++j) sum += to[j] = std::exp(from[j] - largest);
        const float scale = 1.0f / sum;
        for (int64_t j = 0; j < columns; ++j) to[j] *= scale;
    }
    return y;
}
"""

kernel = load_inline(name="three_passes", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
