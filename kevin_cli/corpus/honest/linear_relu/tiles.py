# expect: correct
# says:
# family: order
"""Tiles of 16 x 16 with the rest cut off at the edges, and partial sums over the depth."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int64_t rows = x.size(0), inner = x.size(1), outputs = weight.size(0);
    const int64_t tile = 16;
    auto y = torch::empty({rows, outputs}, x.options());
    const float* in = x.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    float* out = y.data_ptr<float>();
    for (int64_t i0 = 0; i0 < rows; i0 += tile)
        for (int64_t o0 = 0; o0 < outputs; o0 += tile) {
            const int64_t i1 = std::min(i0 + tile, rows), o1 = std::min(o0 + tile, outputs);
            float sums[16][16] = {};
            for (int64_t k0 = 0; k0 < inner; k0 += tile) {
                const int64_t k1 = std::min(k0 + tile, inner);
                for (int64_t i = i0; i < i1; ++i)
                    for (int64_t o = o0; o < o1; ++o)
                        for (int64_t k = k0; k < k1; ++k) sums[i - i0][o - o0] += in[i * inner + k] * w[o * inner + k];
            }
            for (int64_t i = i0; i < i1; ++i)
                for (int64_t o = o0; o < o1; ++o) {
                    const float value = sums[i - i0][o - o0] + bias.data_ptr<float>()[o];
                    out[i * outputs + o] = value < 0.0f ? 0.0f : value;
                }
        }
    return y;
}
"""

kernel = load_inline(name="tiles", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return kernel.run(x, self.linear.weight, self.linear.bias)
