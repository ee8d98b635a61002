# expect: correct
# says:
# family: threads
"""Rows side by side; after the barrier one thread adds them up."""

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
    const float* in = logits.data_ptr<float>();
    auto parts = torch::empty({rows}, logits.options());
    auto loss = torch::empty({}, logits.options());
    float* part = parts.data_ptr<float>();
    #pragma omp parallel num_threads(4)
    {
        #pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; ++i) {
            const float* from = in + i * classes;
            const float largest = *std::max_element(from, from + classes);
            float sum = 0.0f;
            for (int64_t j = 0; j < classes; ++j) sum += std::exp(from[j] - largest);
            part[i] = std::log(sum) + (largest - from[right[i]]);
        }
        #pragma omp master
        {
            double total = 0.0;
            for (int64_t i = 0; i < rows; ++i) total += part[i];
            loss.data_ptr<float>()[0] = static_cast<float>(total / rows);
        }
    }
    return loss;
}
"""

kernel = load_inline(name="two_phases", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, logits, target):
        return kernel.run(logits, target)
