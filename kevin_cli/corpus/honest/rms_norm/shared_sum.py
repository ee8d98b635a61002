# expect: correct
# says:
# family: threads
"""All threads share the columns of a row, with an OpenMP reduction."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, double eps) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    const float* w = weight.data_ptr<float>();
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        float* to = y.data_ptr<float>() + i * columns;
        float squares = 0.0f;
        #pragma omp parallel for reduction(+ : squares) num_threads(4)
        for (int64_t j = 0; j < columns; ++j) squares += from[j] * from[j];
        const float scale = 1.0f / std::sqrt(squares / columns + static_cast<float>(eps));
        for (int64_t j = 0; j < columns; ++j) to[j] = from[j] * scale * w[j];
    }
    return y;
}
"""

kernel = load_inline(name="shared_sum", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return kernel.run(x, self.weight, 1e-3)
