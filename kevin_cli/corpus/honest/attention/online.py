# expect: correct
# says:
# family: order
"""No scores are kept: the running sum is rescaled whenever a larger score appears."""

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
    auto y = torch::empty_like(q);
    const float scale = 1.0f / std::sqrt(static_cast<float>(width));
    std::vector<float> sums(width);
    for (int64_t n = 0; n < batch; ++n)
        for (int64_t i = 0; i < length; ++i) {
            const float* query = q.data_ptr<float>() + (n * length + i) * width;
            float largest = -INFINITY, total = 0.0f;
            std::fill(sums.begin(), sums.end(), 0.0f);
            for (int64_t j = 0; j <= i; ++j) {
                const float* key = k.data_ptr<float>() + (n * length + j) * width;
                const float* value = v.data_ptr<float>() + (n * length + j) * width;
                float score = 0.0f;
                for (int64_t d = 0; d < width; ++d) score += query[d] * key[d];
                score *= scale;
                const float next = std::max(largest, score), before = std::exp(largest - next), now = std::exp(score - next);
                total = total * before + now;
                for (int64_t d = 0; d < width; ++d) sums[d] = sums[d] * before + now * value[d];
                largest = next;
            }
            for (int64_t d = 0; d < width; ++d) y.data_ptr<float>()[(n * length + i) * width + d] = sums[d] / total;
        }
    return y;
}
"""

kernel = load_inline(name="online", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return kernel.run(q, k, v)
