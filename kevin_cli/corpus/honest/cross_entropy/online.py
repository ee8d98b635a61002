# expect: correct
# says:
# family: order
"""One pass over each row, and a running mean over the rows."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>

torch::Tensor run(torch::Tensor logits, torch::Tensor target) {
    const int64_t rows = logits.size(0), classes = logits.size(1);
    double mean = 0.0;
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = logits.data_ptr<float>() + i * classes;
        double largest = -INFINITY, sum = 0.0;
        for (int64_t j = 0; j < classes; ++j) {
            const double next = std::max(largest, static_cast<double>(from[j]));
            sum = sum * std::exp(largest - next) + std::exp(from[j] - next);
            largest = next;
        }
        mean += (largest + std::log(sum) - from[target.data_ptr<int64_t>()[i]] - mean) / (i + 1);
    }
    auto loss = torch::full({1}, mean, logits.options());
    return loss.view({});
}
"""

kernel = load_inline(name="online", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, logits, target):
        return kernel.run(logits, target)
