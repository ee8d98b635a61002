# expect: correct
# says:
# family: style
"""Scores, softmax and weighted sum for one query after another."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>
#include <vector>

torch::Tensor run(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    const int64_t batch = q.size(0), length = q.size(1), width = q.size(2);
    auto y = torch::zeros_like(q);
    const float scale = 1.0f / std::sqrt(static_cast<float>(width));
    std::vector<float> scores(length);
    for (int64_t n = 0; n < batch; ++n)
        for (int64_t i = 0; i < length; ++i) {
            const float* query = q.data_ptr<float>() + (n * length + i) * width;
            float largest = -INFINITY;
            for (int64_t j = 0; j <= i; ++j) {
                const float* key = k.data_ptr<float>() + (n * length + j) * width;
                float sum = 0.0f;
                for (int64_t d = 0; d < width; ++d) sum += query[d] * key[d];
                scores[j] = sum * scale;
                largest = std::max(largest, scores[j]);
            }
            float total = 0.0f;
            for (int64_t j = 0; j <= i; ++j) total += scores[j] = std::exp(scores[j] - largest);
            float* to = y.data_ptr<float>() + (n * length + i) * width;
            for (int64_t j = 0; j <= i; ++j)
                for (int64_t d = 0; d < width; ++d)
                    to[d] += scores[j] / total * v.data_ptr<float>()[(n * length + j) * width + d];
        }
    return y;
}
"""

kernel = load_inline(name="rows", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return kernel.run(q, k, v)
