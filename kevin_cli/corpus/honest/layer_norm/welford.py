# expect: correct
# says:
# family: order
"""Welford's running mean and variance: one pass, stable, another order."""

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
        float mean = 0.0f, spread = 0.0f;
        for (int64_t j = 0; j < columns; ++j) {
            const float step = from[j] - mean;
            mean += step / static_cast<float>(j + 1);
            spread += step * (from[j] - mean);
        }
        const float scale = 1.0f / std::sqrt(spread / columns + static_cast<float>(eps));
        for (int64_t j = 0; j < columns; ++j) to[j] = (from[j] - mean) * scale * w[j] + b[j];
    }
    return y;
}
"""

kernel = load_inline(name="welford", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x):
        return kernel.run(x, self.norm.weight, self.norm.bias, self.norm.eps)
