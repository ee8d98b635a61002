# expect: correct
# says:
# family: rounding
"""Folds scale and shift in every call, in float64."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <vector>

torch::Tensor run(torch::Tensor x, torch::Tensor mean, torch::Tensor variance, torch::Tensor weight, torch::Tensor bias, double eps) {
    const int64_t rows = x.size(0), columns = x.size(1);
    std::vector<double> scale(columns), shift(columns);
    for (int64_t j = 0; j < columns; ++j) {
        scale[j] = weight.data_ptr<float>()[j] / std::sqrt(variance.data_ptr<float>()[j] + eps);
        shift[j] = bias.data_ptr<float>()[j] - mean.data_ptr<float>()[j] * scale[j];
    }
    auto y = torch::empty_like(x);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
            y.data_ptr<float>()[i * columns + j] =
                static_cast<float>(x.data_ptr<float>()[i * columns + j] * scale[j] + shift[j]);
    return y;
}
"""

kernel = load_inline(name="folded_each_call", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.BatchNorm1d(size)

    def forward(self, x):
        return kernel.run(x, self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias, self.norm.eps)
