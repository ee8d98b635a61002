"""Lists in, tuples out, an optional bias."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
#include <tuple>

std::tuple<torch::Tensor, torch::Tensor> moments(std::vector<torch::Tensor> xs, c10::optional<torch::Tensor> bias) {
    auto total = torch::zeros_like(xs[0]);
    for (auto& x : xs) total += x;
    if (bias.has_value()) total += bias.value();
    auto mean = total.mean({-1}, true);
    return std::make_tuple(total - mean, mean);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("moments", &moments, pybind11::arg("xs"), pybind11::arg("bias") = pybind11::none());
}
"""
ext = load_inline(name="moments", cpp_sources=source)


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.moments(list(inputs))[0]


def get_inputs():
    return [torch.randn(16, 64), torch.randn(16, 64)]
