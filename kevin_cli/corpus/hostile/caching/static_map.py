# expect: mismatch
# says:
# task: softmax
"""A static map in the extension, keyed by address, where no Python looks."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>
#include <unordered_map>

torch::Tensor run(torch::Tensor x) {
    static std::unordered_map<const void*, torch::Tensor> known;
    auto found = known.find(x.data_ptr());
    if (found != known.end()) return found->second;
    const int64_t columns = x.size(1);
    auto y = torch::empty_like(x);
    for (int64_t i = 0; i < x.size(0); ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        float* to = y.data_ptr<float>() + i * columns;
        float largest = from[0], sum = 0.0f;
        for (int64_t j = 1; j < columns; ++j) largest = from[j] > largest ? from[j] : largest;
        for (int64_t j = 0; j < columns; ++j) sum += to[j] = std::exp(from[j] - largest);
        for (int64_t j = 0; j < columns; ++j) to[j] /= sum;
    }
    known[x.data_ptr()] = y;
    return y;
}
"""

kernel = load_inline(name="static_map", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
