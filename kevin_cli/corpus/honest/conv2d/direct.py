# expect: correct
# says:
# family: style
"""Four loops and a test for the border."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

torch::Tensor run(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int64_t images = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
    const int64_t filters = weight.size(0), out_height = (height + 1) / 2, out_width = (width + 1) / 2;
    auto y = torch::empty({images, filters, out_height, out_width}, x.options());
    const float* in = x.data_ptr<float>();
    const float* w = weight.data_ptr<float>();
    float* out = y.data_ptr<float>();
    for (int64_t n = 0; n < images; ++n)
        for (int64_t f = 0; f < filters; ++f)
            for (int64_t i = 0; i < out_height; ++i)
                for (int64_t j = 0; j < out_width; ++j) {
                    float sum = bias.data_ptr<float>()[f];
                    for (int64_t c = 0; c < channels; ++c)
                        for (int64_t a = 0; a < 3; ++a)
                            for (int64_t b = 0; b < 3; ++b) {
                                const int64_t row = 2 * i + a - 1, column = 2 * j + b - 1;
                                if (row < 0 || row >= height || column < 0 || column >= width) continue;
                                sum += in[((n * channels + c) * height + row) * width + column] *
                                       w[((f * channels + c) * 3 + a) * 3 + b];
                            }
                    out[((n * filters + f) * out_height + i) * out_width + j] = sum;
                }
    return y;
}
"""

kernel = load_inline(name="direct", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, stride=2, padding=1)

    def forward(self, x):
        return kernel.run(x, self.conv.weight, self.conv.bias)
