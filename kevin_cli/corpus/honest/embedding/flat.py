# expect: correct
# says:
# family: views
"""One loop over all elements, with a quotient and a remainder."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor index, torch::Tensor table) {
    const int64_t width = table.size(1);
    auto y = torch::empty({index.numel() * width}, table.options());
    #pragma omp parallel for
    for (int64_t i = 0; i < y.numel(); ++i)
        y.data_ptr<float>()[i] = table.data_ptr<float>()[index.data_ptr<int64_t>()[i / width] * width + i % width];
    return y.view({index.size(0), index.size(1), width});
}
"""

kernel = load_inline(name="flat", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(53, 24)

    def forward(self, index):
        return kernel.run(index, self.table.weight)
