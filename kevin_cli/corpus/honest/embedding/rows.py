# expect: correct
# says:
# family: style
"""Copies one row of the table for each index."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cstring>

torch::Tensor run(torch::Tensor index, torch::Tensor table) {
    const int64_t count = index.numel(), width = table.size(1);
    auto y = torch::empty({index.size(0), index.size(1), width}, table.options());
    const int64_t* at = index.data_ptr<int64_t>();
    const float* from = table.data_ptr<float>();
    float* to = y.data_ptr<float>();
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * width, from + at[i] * width, width * sizeof(float));
    return y;
}
"""

kernel = load_inline(name="rows", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(53, 24)

    def forward(self, index):
        return kernel.run(index, self.table.weight)
