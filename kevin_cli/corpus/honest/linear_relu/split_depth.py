# expect: correct
# says:
# family: threads
"""Two halves of the depth side by side, and a loop that adds them up after the barrier."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int64_t rows = x.size(0), inner = x.size(1), outputs = weight.size(0), half = inner / 2;
    auto parts = torch::empty({2, rows, outputs}, x.options());
    auto y = torch::empty({rows, outputs}, x.options());
    const float* in = x.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* part = parts.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel num_threads(4)
    {
        #pragma omp for schedule(static)
        for (int64_t n = 0; n < 2 * rows; ++n) {
            const int64_t i = n % rows, begin = n < rows ? 0 : half, end = n < rows ? half : inner;
            for (int64_t o = 0; o < outputs; ++o) {
                float sum = 0.0f;
                for (int64_t k = begin; k < end; ++k) sum += in[i * inner + k] * w[o * inner + k];
                part[n * outputs + o] = sum;
            }
        }
        #pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t o = 0; o < outputs; ++o) {
                const float value = part[i * outputs + o] + part[(rows + i) * outputs + o] + b[o];
                out[i * outputs + o] = value < 0.0f ? 0.0f : value;
            }
    }
    return y;
}
"""

kernel = load_inline(name="split_depth", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return kernel.run(x, self.linear.weight, self.linear.bias)
