# expect: correct
# says:
# family: threads
"""One parallel region with two loops; the barrier between them is what makes it right."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor mean, torch::Tensor variance, torch::Tensor weight, torch::Tensor bias, double eps) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto folded = torch::empty({2, columns}, x.options());
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    const float* m = mean.data_ptr<float>();
    const float* v = variance.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    const float* b = bias.data_ptr<float>();
    float* scale = folded.data_ptr<float>();
    float* shift = scale + columns;
    float* out = y.data_ptr<float>();
    #pragma omp parallel num_threads(4)
    {
        #pragma omp for schedule(static)
        for (int64_t j = 0; j < columns; ++j) {
            const double factor = w[j] / std::sqrt(v[j] + eps);
            scale[j] = static_cast<float>(factor);
            shift[j] = static_cast<float>(b[j] - m[j] * factor);
        }
        #pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j) out[i * columns + j] = std::fma(in[i * columns + j], scale[j], shift[j]);
    }
    return y;
}
"""

kernel = load_inline(name="two_phases", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.BatchNorm1d(size)

    def forward(self, x):
        return kernel.run(x, self.norm.running_mean, self.norm.running_var, self.norm.weight, self.norm.bias, self.norm.eps)
