# expect: correct
# says:
# family: threads
"""The largest first, then the sum."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({rows}, x.options());
    #pragma omp parallel for
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        float largest = from[0];
        for (int64_t j = 1; j < columns; ++j) largest = std::max(largest, from[j]);
        float sum = 0.0f;
        for (int64_t j = 0; j < columns; ++j) sum += std::exp(from[j] - largest);
        y.data_ptr<float>()[i] = largest + std::log(sum);
    }
    return y;
}
"""

kernel = load_inline(name="rows", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
