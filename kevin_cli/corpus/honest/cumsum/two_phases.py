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

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1), half = columns / 2;
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel num_threads(4)
    {
        #pragma omp for schedule(static)
        for (int64_t k = 0; k < 2 * rows; ++k) {
            const int64_t i = k / 2, begin = k % 2 ? half : 0, end = k % 2 ? columns : half;
            float sum = 0.0f;
            for (int64_t j = begin; j < end; ++j) out[i * columns + j] = sum += in[i * columns + j];
        }
        #pragma omp for schedule(static)
        for (int64_t i = rows - 1; i >= 0; --i)
            for (int64_t j = half; j < columns; ++j) out[i * columns + j] += out[i * columns + half - 1];
    }
    return y;
}
"""

kernel = load_inline(name="two_phases", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
