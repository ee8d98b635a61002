"""Weights in the module, an in-place function, no_grad in C++."""

import torch
from torch.utils.cpp_extension import load_inline


cpp_source = """
#include <torch/extension.h>
void bias_act_(torch::Tensor x, torch::Tensor bias) {
  torch::NoGradGuard no_grad;
  auto data = x.data_ptr<float>();
  const auto cols = bias.numel();
  for (int64_t i = 0; i < x.numel(); ++i) { float v = data[i] + bias.data_ptr<float>()[i % cols]; data[i] = v / (1.0f + std::exp(-v)); }
}
torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  auto y = torch::mm(x, weight.t());
  bias_act_(y, bias.detach());
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &forward, "linear and silu");
  m.def("bias_act_", &bias_act_, "in place");
  m.attr("version") = 3;
}
"""
ext = load_inline(name="linear_silu", cpp_sources=cpp_source, verbose=False)


class ModelNew(torch.nn.Module):
    def __init__(self, features=24, out=10):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(out, features))
        self.bias = torch.nn.Parameter(torch.randn(out))

    def forward(self, x):
        return ext.forward(x, self.weight, self.bias)


def get_inputs():
    return [torch.randn(6, 24)]
