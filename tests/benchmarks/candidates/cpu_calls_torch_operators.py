"""Operators called from C++ around a loop: matmul, softmax, relu, sum with dimensions."""

import torch
from torch.utils.cpp_extension import load_inline


source = """
#include <torch/extension.h>
torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  auto scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt((double)q.size(-1));
  auto weights = torch::softmax(scores, -1);
  auto out = torch::matmul(weights, v);
  auto norm = out.pow(2).sum({-1}, /*keepdim=*/true).add(1e-6).sqrt();
  return torch::relu(out / norm) + out.mean();
}
"""
ext = load_inline(name="calls_torch_operators", cpp_sources=source, functions=["attention"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.attention(*inputs)


def get_inputs():
    return [torch.randn(2, 7, 16), torch.randn(2, 9, 16), torch.randn(2, 9, 16)]
