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

torch::Tensor run(torch::Tensor x, torch::Tensor weight, double eps) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    auto kept = torch::empty({rows}, x.options());
    const float* in = x.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    float* out = y.data_ptr<float>();
    float* scale = kept.data_ptr<float>();
    #pragma omp parallel num_threads(4)
    {
        #pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; ++i) {
            float squares = 0.0f;
            for (int64_t j = 0; j < columns; ++j) squares += in[i * columns + j] * in[i * columns + j];
            scale[i] = 1.0f / std::sqrt(squares / columns + static_cast<float>(eps));
        }
        #pragma omp for schedule(static)
        for (int64_t i = rows - 1; i >= 0; --i)
            for (int64_t j = 0; j < columns; ++j) out[i * columns + j] = in[i * columns + j] * scale[i] * w[j];
    }
    return y;
}
"""

kernel = load_inline(name="two_phases", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return kernel.run(x, self.weight, 1e-3)
