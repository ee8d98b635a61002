"""Element-wise, functions=[...]."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>

torch::Tensor relu_forward(torch::Tensor x) {
    auto out = torch::empty_like(x);
    const float* in = x.data_ptr<float>();
    float* o = out.data_ptr<float>();
    const int64_t n = x.numel();
    #pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) o[i] = in[i] > 0.0f ? in[i] : 0.0f;
    return out;
}
"""
ext = load_inline(name="relu_ext", cpp_sources=source, functions=["relu_forward"], extra_cflags=["-O3"], verbose=True)


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.relu_forward(*inputs)


def get_inputs():
    return [torch.randn(64, 1024)]
