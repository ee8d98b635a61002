"""at::conv2d and a fused tail in place; optional bias; vector arguments."""

import torch
from torch.utils.cpp_extension import load_inline


source = """
#include <torch/extension.h>
#include <vector>
at::Tensor conv_relu(at::Tensor x, at::Tensor w, c10::optional<at::Tensor> b, std::vector<int64_t> stride, std::vector<int64_t> padding) {
  auto y = at::conv2d(x, w, b, stride, padding).contiguous();
  float* p = y.data_ptr<float>();
  for (int64_t i = 0; i < y.numel(); ++i) p[i] = p[i] > 0 ? p[i] : 0.1f * p[i];
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "convolution";
  m.def("conv_relu", &conv_relu, "conv2d and leaky relu", py::arg("x"), py::arg("w"), py::arg("b") = py::none(),
        py::arg("stride") = std::vector<int64_t>{1, 1}, py::arg("padding") = std::vector<int64_t>{0, 0});
}
"""
ext = load_inline(name="conv_bias_relu", cpp_sources=source)


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.conv_relu(inputs[0], inputs[1], padding=[1, 1]) + ext.conv_relu(*inputs, padding=[1, 1])


def get_inputs():
    return [torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4)]
