# expect: correct
# says:
# family: threads
"""A running sum."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel for
    for (int64_t i = 0; i < rows; ++i) {
        double sum = 0.0;
        for (int64_t j = 0; j < columns; ++j) {
            sum += in[i * columns + j];
            out[i * columns + j] = static_cast<float>(sum);
        }
    }
    return y;
}
"""

kernel = load_inline(name="running", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
