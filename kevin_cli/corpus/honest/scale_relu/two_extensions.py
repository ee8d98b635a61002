# expect: correct
# says:
# family: binding
"""Two extensions of one name-less family, one for each half of the work."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

SCALE = r"""
#include <torch/extension.h>

torch::Tensor scale(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    const int64_t columns = x.size(1);
    for (int64_t i = 0; i < x.numel(); ++i)
        y.data_ptr<float>()[i] =
            x.data_ptr<float>()[i] * weight.data_ptr<float>()[i % columns] + bias.data_ptr<float>()[i % columns];
    return y;
}
"""
CUT = r"""
#include <torch/extension.h>

void cut(torch::Tensor y) {
    float* values = y.data_ptr<float>();
    for (int64_t i = 0; i < y.numel(); ++i)
        if (values[i] < 0.0f) values[i] = 0.0f;
}
"""

scaling = load_inline(name="first", cpp_sources=SCALE, functions=["scale"])
cutting = load_inline(name="second", cpp_sources=CUT, functions=["cut"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        y = scaling.scale(x, self.weight, self.bias)
        cutting.cut(y)
        return y
