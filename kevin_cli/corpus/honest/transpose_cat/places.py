# expect: correct
# says:
# family: style
"""Every element to its place."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor y) {
    const int64_t batch = x.size(0), a = x.size(1), b = x.size(2), more = y.size(1);
    auto out = torch::empty({batch, b + more, a}, x.options());
    const float* first = x.data_ptr<float>();
    const float* second = y.data_ptr<float>();
    float* to = out.data_ptr<float>();
    for (int64_t n = 0; n < batch; ++n) {
        float* base = to + n * (b + more) * a;
        for (int64_t i = 0; i < b; ++i)
            for (int64_t j = 0; j < a; ++j) base[i * a + j] = first[(n * a + j) * b + i];
        for (int64_t i = 0; i < more; ++i)
            for (int64_t j = 0; j < a; ++j) base[(b + i) * a + j] = second[(n * more + i) * a + j];
    }
    return out;
}
"""

kernel = load_inline(name="places", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return kernel.run(x, y)
