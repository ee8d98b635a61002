# expect: correct
# says:
# family: types
"""Converts the indices to 32 bits, which all of them fit."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor index, torch::Tensor table) {
    const int64_t width = table.size(1);
    auto narrow = index.to(torch::kInt32).contiguous();
    auto y = torch::empty({index.size(0), index.size(1), width}, table.options());
    const int32_t* at = narrow.data_ptr<int32_t>();
    for (int64_t i = 0; i < index.numel(); ++i)
        for (int64_t j = 0; j < width; ++j)
            y.data_ptr<float>()[i * width + j] = table.data_ptr<float>()[at[i] * width + j];
    return y;
}
"""

kernel = load_inline(name="narrow_indices", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(53, 24)

    def forward(self, index):
        return kernel.run(index, self.table.weight)
