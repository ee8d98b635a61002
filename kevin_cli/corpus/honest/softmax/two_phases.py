# expect: correct
# says:
# family: threads
"""One parallel region with two loops; the barrier between them is what makes it right."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    auto kept = torch::empty({2, rows}, x.options());
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    float* largest = kept.data_ptr<float>();
    float* sums = largest + rows;
    #pragma omp parallel num_threads(4)
    {
        #pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; ++i) {
            largest[i] = *std::max_element(in + i * columns, in + (i + 1) * columns);
            float sum = 0.0f;
            for (int64_t j = 0; j < columns; ++j) sum += std::exp(in[i * columns + j] - largest[i]);
            sums[i] = sum;
        }
        #pragma omp for schedule(static)
        for (int64_t i = rows - 1; i >= 0; --i)
            for (int64_t j = 0; j < columns; ++j)
                out[i * columns + j] = std::exp(in[i * columns + j] - largest[i]) / sums[i];
    }
    return y;
}
"""

kernel = load_inline(name="two_phases", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
