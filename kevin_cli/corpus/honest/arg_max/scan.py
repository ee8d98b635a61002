# expect: correct
# says:
# family: style
"""The first of the largest; a NaN counts as the largest."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({rows}, x.options().dtype(torch::kInt64));
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        int64_t best = 0;
        for (int64_t j = 1; j < columns; ++j)
            if (from[j] > from[best] || (from[j] != from[j] && from[best] == from[best])) best = j;
        y.data_ptr<int64_t>()[i] = best;
    }
    return y;
}
"""

kernel = load_inline(name="scan", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
