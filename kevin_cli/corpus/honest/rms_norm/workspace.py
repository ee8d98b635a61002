# expect: correct
# says:
# family: state
"""Keeps a workspace for each shape: memory is reused, results are not."""

import torch
from torch import nn

from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

void scales(torch::Tensor x, torch::Tensor out, double eps) {
    const int64_t rows = x.size(0), columns = x.size(1);
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        double squares = 0.0;
        for (int64_t j = 0; j < columns; ++j) squares += static_cast<double>(from[j]) * from[j];
        out.data_ptr<float>()[i] = static_cast<float>(1.0 / std::sqrt(squares / columns + eps));
    }
}

torch::Tensor apply(torch::Tensor x, torch::Tensor scale, torch::Tensor weight) {
    const int64_t columns = x.size(1);
    auto y = torch::empty_like(x);
    for (int64_t i = 0; i < x.numel(); ++i)
        y.data_ptr<float>()[i] =
            x.data_ptr<float>()[i] * scale.data_ptr<float>()[i / columns] * weight.data_ptr<float>()[i % columns];
    return y;
}
"""

kernel = load_inline(name="workspace", cpp_sources=SOURCE, functions=["scales", "apply"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.workspaces = {}

    def forward(self, x):
        room = self.workspaces.get(x.shape)
        if room is None:
            room = self.workspaces[x.shape] = torch.empty(x.shape[0])
        kernel.scales(x, room, 1e-3)
        return kernel.apply(x, room, self.weight)
