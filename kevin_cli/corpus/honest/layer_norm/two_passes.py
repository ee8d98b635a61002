# expect: correct
# says:
# family: style
"""Mean, then variance about it; four partial sums and a loop for the rest."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

static float total(const float* values, int64_t size, float centre, bool squared) {
    float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    const int64_t whole = size / 4 * 4;
    for (int64_t j = 0; j < whole; j += 4)
        for (int64_t k = 0; k < 4; ++k) {
            const float value = values[j + k] - centre;
            part[k] += squared ? value * value : value;
        }
    for (int64_t j = whole; j < size; ++j) {
        const float value = values[j] - centre;
        part[0] += squared ? value * value : value;
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
}

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    const float* w = weight.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        float* to = y.data_ptr<float>() + i * columns;
        const float mean = total(from, columns, 0.0f, false) / columns;
        const float variance = total(from, columns, mean, true) / columns;
        const float scale = 1.0f / std::sqrt(variance + static_cast<float>(eps));
        for (int64_t j = 0; j < columns; ++j) to[j] = (from[j] - mean) * scale * w[j] + b[j];
    }
    return y;
}
"""

kernel = load_inline(name="two_passes", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        return kernel.run(x, self.norm.weight, self.norm.bias, self.norm.eps)
