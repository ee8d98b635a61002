# expect: correct
# says:
# family: rounding
"""Kahan's compensated sum: closer to the truth than the reference."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    for (int64_t i = 0; i < rows; ++i) {
        volatile float sum = 0.0f, lost = 0.0f;
        for (int64_t j = 0; j < columns; ++j) {
            const float value = x.data_ptr<float>()[i * columns + j] - lost;
            const float next = sum + value;
            lost = (next - sum) - value;
            sum = next;
            y.data_ptr<float>()[i * columns + j] = next;
        }
    }
    return y;
}
"""

kernel = load_inline(name="compensated", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
