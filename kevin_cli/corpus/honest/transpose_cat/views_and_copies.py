# expect: correct
# says:
# family: views
"""Two copies between views do all of it."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor y) {
    auto out = torch::empty({x.size(0), x.size(2) + y.size(1), x.size(1)}, x.options());
    out.narrow(1, 0, x.size(2)).copy_(x.transpose(1, 2));
    out.narrow(1, x.size(2), y.size(1)).copy_(y);
    return out;
}
"""

kernel = load_inline(name="views_and_copies", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return kernel.run(x, y)
