# expect: correct
# says:
# family: order
"""Sums of x - x[0] and of its square in float64: one pass without cancellation."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    const float* w = weight.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        float* to = y.data_ptr<float>() + i * columns;
        const double shift = from[0];
        double sum = 0.0, squares = 0.0;
        for (int64_t j = 0; j < columns; ++j) {
            const double value = from[j] - shift;
            sum += value;
            squares += value * value;
        }
        const double mean = sum / columns, variance = squares / columns - mean * mean;
        const double scale = 1.0 / std::sqrt(variance + eps);
        for (int64_t j = 0; j < columns; ++j)
            to[j] = static_cast<float>((from[j] - shift - mean) * scale) * w[j] + b[j];
    }
    return y;
}
"""

kernel = load_inline(name="shifted_sums", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        return kernel.run(x, self.norm.weight, self.norm.bias, self.norm.eps)
