# expect: correct
# says:
# family: library
"""torch's matrix product and a kernel for the rest."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

void run(torch::Tensor y, torch::Tensor bias) {
    const int64_t outputs = y.size(1);
    float* values = y.data_ptr<float>();
    for (int64_t i = 0; i < y.numel(); ++i) {
        const float value = values[i] + bias.data_ptr<float>()[i % outputs];
        values[i] = value < 0.0f ? 0.0f : value;
    }
}
"""

kernel = load_inline(name="library_product", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        y = torch.mm(x, self.linear.weight.t())
        kernel.run(y, self.linear.bias)
        return y
