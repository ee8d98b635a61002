# expect: correct
# says:
# family: views
"""The answer is right and lies transposed in memory."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({columns, rows}, x.options());
    float* out = y.data_ptr<float>();
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        const float largest = *std::max_element(from, from + columns);
        double sum = 0.0;
        for (int64_t j = 0; j < columns; ++j) sum += std::exp(static_cast<double>(from[j] - largest));
        for (int64_t j = 0; j < columns; ++j) out[j * rows + i] = static_cast<float>(std::exp(from[j] - largest) / sum);
    }
    return y.t();
}
"""

kernel = load_inline(name="other_strides", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
