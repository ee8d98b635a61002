# expect: correct
# says:
# family: order
"""The same in float64, from both ends at once."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty({rows}, x.options());
    for (int64_t i = 0; i < rows; ++i) {
        const at::Half* from = x.data_ptr<at::Half>() + i * columns;
        double front = 0.0, back = 0.0;
        for (int64_t j = 0; j < columns / 2; ++j) {
            front += static_cast<float>(from[j]);
            back += static_cast<float>(from[columns - 1 - j]);
        }
        if (columns % 2) front += static_cast<float>(from[columns / 2]);
        y.data_ptr<at::Half>()[i] = static_cast<at::Half>(static_cast<float>((front + back) / columns));
    }
    return y;
}
"""

kernel = load_inline(name="double_sums", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
