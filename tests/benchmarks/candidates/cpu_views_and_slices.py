"""Views, slices, select, narrow, permute, unsqueeze, expand, cat, stack."""

import torch
from torch.utils.cpp_extension import load_inline


source = """
#include <torch/extension.h>
torch::Tensor shuffle(torch::Tensor x) {
  auto a = x.view({2, -1, x.size(1)}).permute({1, 0, 2}).contiguous();
  auto b = x.slice(0, 0, x.size(0), 2).unsqueeze(1).expand({-1, 2, -1});
  auto c = torch::cat({a, b.reshape_as(a)}, 1);
  auto d = torch::stack({c.select(1, 0), c.narrow(1, 1, 1).squeeze(1)}, 0);
  return d.flatten(0, 1).clone().t();
}
"""
ext = load_inline(name="views_and_slices", cpp_sources=source, functions=["shuffle"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.shuffle(*inputs)


def get_inputs():
    return [torch.randn(8, 6)]
