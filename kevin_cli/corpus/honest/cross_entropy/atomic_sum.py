# expect: correct
# says:
# family: threads
"""Threads add their rows to one number atomically, in whatever order they come."""

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
    auto loss = torch::zeros({}, logits.options());
    float* total = loss.data_ptr<float>();
    #pragma omp parallel for num_threads(4)
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = logits.data_ptr<float>() + i * classes;
        float largest = from[0];
        for (int64_t j = 1; j < classes; ++j) largest = std::max(largest, from[j]);
        float sum = 0.0f;
        for (int64_t j = 0; j < classes; ++j) sum += std::exp(from[j] - largest);
        const float part = (std::log(sum) + (largest - from[right[i]])) / rows;
        #pragma omp atomic
        *total += part;
    }
    return loss;
}
"""

kernel = load_inline(name="atomic_sum", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, logits, target):
        return kernel.run(logits, target)
