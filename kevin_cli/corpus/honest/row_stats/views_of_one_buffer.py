# expect: correct
# says:
# family: views
"""Both outputs are views of one buffer, and neither is contiguous."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto both = torch::empty({rows, 2}, x.options());
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        double mean = 0.0, spread = 0.0;
        for (int64_t j = 0; j < columns; ++j) {
            const double step = from[j] - mean;
            mean += step / (j + 1);
            spread += step * (from[j] - mean);
        }
        both.data_ptr<float>()[2 * i] = static_cast<float>(mean);
        both.data_ptr<float>()[2 * i + 1] = static_cast<float>(spread / (columns - 1));
    }
    return both;
}
"""

kernel = load_inline(name="views_of_one_buffer", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        both = kernel.run(x)
        return both[:, 0], both[:, 1]
