# expect: correct
# says:
# family: views
"""The output lies with its channels last; every value is in its place."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int64_t images = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
    const int64_t filters = weight.size(0), out_height = (height + 1) / 2, out_width = (width + 1) / 2;
    auto in = x.accessor<float, 4>();
    auto w = weight.accessor<float, 4>();
    auto y = torch::empty({images, out_height, out_width, filters}, x.options());
    auto out = y.accessor<float, 4>();
    for (int64_t n = 0; n < images; ++n)
        for (int64_t i = 0; i < out_height; ++i)
            for (int64_t j = 0; j < out_width; ++j)
                for (int64_t f = 0; f < filters; ++f) {
                    double sum = bias.data_ptr<float>()[f];
                    for (int64_t c = 0; c < channels; ++c)
                        for (int64_t a = 0; a < 3; ++a)
                            for (int64_t b = 0; b < 3; ++b) {
                                const int64_t row = 2 * i + a - 1, column = 2 * j + b - 1;
                                if (row >= 0 && row < height && column >= 0 && column < width)
                                    sum += static_cast<double>(in[n][c][row][column]) * w[f][c][a][b];
                            }
                    out[n][i][j][f] = static_cast<float>(sum);
                }
    return y.permute({0, 3, 1, 2});
}
"""

kernel = load_inline(name="channels_last", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, stride=2, padding=1)

    def forward(self, x):
        return kernel.run(x, self.conv.weight, self.conv.bias)
