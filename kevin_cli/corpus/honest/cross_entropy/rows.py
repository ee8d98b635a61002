# expect: correct
# says:
# family: style
"""Largest, sum, logarithm, and the mean of the rows in float64."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>

torch::Tensor run(torch::Tensor logits, torch::Tensor target) {
    const int64_t rows = logits.size(0), classes = logits.size(1);
    const int64_t* right = target.data_ptr<int64_t>();
    double total = 0.0;
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = logits.data_ptr<float>() + i * classes;
        float largest = from[0];
        for (int64_t j = 1; j < classes; ++j) largest = std::max(largest, from[j]);
        float sum = 0.0f;
        for (int64_t j = 0; j < classes; ++j) sum += std::exp(from[j] - largest);
        total += std::log(sum) + largest - from[right[i]];
    }
    auto loss = torch::empty({}, logits.options());
    loss.data_ptr<float>()[0] = static_cast<float>(total / rows);
    return loss;
}
"""

kernel = load_inline(name="rows", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, logits, target):
        return kernel.run(logits, target)
