# expect: correct
# says:
# family: order
"""Two passes of one dimension each, with a row of scratch memory."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <vector>

static float larger(float a, float b) { return b > a || b != b ? b : a; }

torch::Tensor run(torch::Tensor x) {
    const int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
    const int64_t out_height = (height - 1) / 2 + 1, out_width = (width - 1) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), out_height, out_width}, x.options());
    std::vector<float> scratch(width);
    for (int64_t p = 0; p < planes; ++p)
        for (int64_t i = 0; i < out_height; ++i) {
            const float* plane = x.data_ptr<float>() + p * height * width;
            for (int64_t column = 0; column < width; ++column) {
                float value = plane[2 * i * width + column];
                if (i > 0) value = larger(value, plane[(2 * i - 1) * width + column]);
                if (2 * i + 1 < height) value = larger(value, plane[(2 * i + 1) * width + column]);
                scratch[column] = value;
            }
            for (int64_t j = 0; j < out_width; ++j) {
                float value = scratch[2 * j];
                if (j > 0) value = larger(value, scratch[2 * j - 1]);
                if (2 * j + 1 < width) value = larger(value, scratch[2 * j + 1]);
                y.data_ptr<float>()[(p * out_height + i) * out_width + j] = value;
            }
        }
    return y;
}
"""

kernel = load_inline(name="rows_then_columns", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
