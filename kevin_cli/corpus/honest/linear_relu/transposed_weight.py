# expect: correct
# says:
# family: order
"""Transposes the weight in each call and adds up whole rows."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int64_t rows = x.size(0), inner = x.size(1), outputs = weight.size(0);
    auto turned = weight.t().contiguous();
    auto y = torch::empty({rows, outputs}, x.options());
    const float* w = turned.data_ptr<float>();
    for (int64_t i = 0; i < rows; ++i) {
        float* to = y.data_ptr<float>() + i * outputs;
        for (int64_t o = 0; o < outputs; ++o) to[o] = bias.data_ptr<float>()[o];
        for (int64_t k = 0; k < inner; ++k) {
            const float value = x.data_ptr<float>()[i * inner + k];
            for (int64_t o = 0; o < outputs; ++o) to[o] = std::fma(value, w[k * outputs + o], to[o]);
        }
        for (int64_t o = 0; o < outputs; ++o) to[o] = to[o] < 0.0f ? 0.0f : to[o];
    }
    return y;
}
"""

kernel = load_inline(name="transposed_weight", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return kernel.run(x, self.linear.weight, self.linear.bias)
