# expect: correct
# says:
# family: style
"""Half in, float sums, half out."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({rows}, x.options());
    const at::Half* in = x.data_ptr<at::Half>();
    at::Half* out = y.data_ptr<at::Half>();
    for (int64_t i = 0; i < rows; ++i) {
        float sum = 0.0f;
        for (int64_t j = 0; j < columns; ++j) sum += static_cast<float>(in[i * columns + j]);
        out[i] = static_cast<at::Half>(sum / columns);
    }
    return y;
}
"""

kernel = load_inline(name="float_sums", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
