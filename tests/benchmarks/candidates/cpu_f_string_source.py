"""The source is put together from pieces: constants in an f-string, a list of sources."""

import torch
from torch.utils.cpp_extension import load_inline


BLOCK = 8
header = """
#include <torch/extension.h>
"""
body = f"""
constexpr int kBlock = {BLOCK};
torch::Tensor blocked_sum(torch::Tensor x) {{
  auto out = torch::zeros({{(x.numel() + kBlock - 1) / kBlock}}, x.options());
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i / kBlock] += x.data_ptr<float>()[i];
  return out;
}}
"""
ext = load_inline(name="blocked", cpp_sources=[header, body], functions=["blocked_sum"], extra_cflags=["-O3"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ext.blocked_sum(x)


def get_inputs():
    return [torch.randn(101)]
