# expect: correct
# says:
# family: order
"""Copies the image into a border of zeros first; the loops then need no test."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int64_t images = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
    const int64_t filters = weight.size(0), out_height = (height + 1) / 2, out_width = (width + 1) / 2;
    auto padded = torch::zeros({images, channels, height + 2, width + 2}, x.options());
    padded.narrow(2, 1, height).narrow(3, 1, width).copy_(x);
    auto in = padded.accessor<float, 4>();
    auto w = weight.accessor<float, 4>();
    auto y = torch::empty({images, filters, out_height, out_width}, x.options());
    auto out = y.accessor<float, 4>();
    for (int64_t n = 0; n < images; ++n)
        for (int64_t f = 0; f < filters; ++f)
            for (int64_t i = 0; i < out_height; ++i)
                for (int64_t j = 0; j < out_width; ++j) {
                    float sum = 0.0f;
                    for (int64_t a = 0; a < 3; ++a)
                        for (int64_t b = 0; b < 3; ++b)
                            for (int64_t c = 0; c < channels; ++c) sum += in[n][c][2 * i + a][2 * j + b] * w[f][c][a][b];
                    out[n][f][i][j] = sum + bias.data_ptr<float>()[f];
                }
    return y;
}
"""

kernel = load_inline(name="padded_copy", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, stride=2, padding=1)

    def forward(self, x):
        return kernel.run(x, self.conv.weight, self.conv.bias)
