# expect: correct
# says:
# family: style
"""Two passes in float32 with eight partial sums."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <vector>

std::vector<torch::Tensor> run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto means = torch::empty({rows}, x.options());
    auto variances = torch::empty({rows}, x.options());
    const int64_t whole = columns / 8 * 8;
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        float part[8] = {};
        for (int64_t j = 0; j < whole; j += 8)
            for (int64_t k = 0; k < 8; ++k) part[k] += from[j + k];
        float sum = 0.0f;
        for (int64_t k = 0; k < 8; ++k) sum += part[k];
        for (int64_t j = whole; j < columns; ++j) sum += from[j];
        const float mean = sum / columns;
        float squares = 0.0f;
        for (int64_t j = 0; j < columns; ++j) squares += (from[j] - mean) * (from[j] - mean);
        means.data_ptr<float>()[i] = mean;
        variances.data_ptr<float>()[i] = squares / (columns - 1);
    }
    return {means, variances};
}
"""

kernel = load_inline(name="two_passes", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        means, variances = kernel.run(x)
        return means, variances
