# expect: correct
# says:
# family: threads
"""Rows side by side, erff in float32."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor bias) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({rows, columns}, x.options());
    const float* in = x.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel for
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
            const float value = in[i * columns + j] + b[j];
            out[i * columns + j] = 0.5f * value * (1.0f + std::erf(value * 0.70710678f));
        }
    return y;
}
"""

kernel = load_inline(name="openmp", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return kernel.run(x, self.bias)
