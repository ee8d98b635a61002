# expect: correct
# says:
# family: threads
"""A dot product for each element, rows side by side."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int64_t rows = x.size(0), inner = x.size(1), outputs = weight.size(0);
    auto y = torch::empty({rows, outputs}, x.options());
    const float* in = x.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel for
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t o = 0; o < outputs; ++o) {
            float sum = b[o];
            for (int64_t k = 0; k < inner; ++k) sum += in[i * inner + k] * w[o * inner + k];
            out[i * outputs + o] = sum < 0.0f ? 0.0f : sum;
        }
    return y;
}
"""

kernel = load_inline(name="rows", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return kernel.run(x, self.linear.weight, self.linear.bias)
