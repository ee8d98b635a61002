# expect: correct
# says:
# family: weights
"""Parameters and buffers of its own under the reference's last names."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor mean, torch::Tensor variance, torch::Tensor weight, torch::Tensor bias, double eps) {
    const int64_t rows = x.size(0), columns = x.size(1);
    auto y = torch::empty_like(x);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
            const float scale = 1.0f / std::sqrt(variance.data_ptr<float>()[j] + static_cast<float>(eps));
            y.data_ptr<float>()[i * columns + j] =
                (x.data_ptr<float>()[i * columns + j] - mean.data_ptr<float>()[j]) * scale * weight.data_ptr<float>()[j] +
                bias.data_ptr<float>()[j];
        }
    return y;
}
"""

kernel = load_inline(name="own_buffers", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))

    def forward(self, x):
        return kernel.run(x, self.running_mean, self.running_var, self.weight, self.bias, 1e-5)
