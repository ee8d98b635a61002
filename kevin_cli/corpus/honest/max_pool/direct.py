# expect: correct
# says:
# family: threads
"""A window at a time; a NaN anywhere in it is the result, as in torch."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>

torch::Tensor run(torch::Tensor x) {
    const int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
    const int64_t out_height = (height - 1) / 2 + 1, out_width = (width - 1) / 2 + 1;
    auto y = torch::empty({x.size(0), x.size(1), out_height, out_width}, x.options());
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    #pragma omp parallel for
    for (int64_t p = 0; p < planes; ++p)
        for (int64_t i = 0; i < out_height; ++i)
            for (int64_t j = 0; j < out_width; ++j) {
                float largest = -INFINITY;
                for (int64_t row = std::max<int64_t>(0, 2 * i - 1); row < std::min(height, 2 * i + 2); ++row)
                    for (int64_t column = std::max<int64_t>(0, 2 * j - 1); column < std::min(width, 2 * j + 2); ++column) {
                        const float value = in[(p * height + row) * width + column];
                        if (value > largest || value != value) largest = value;
                    }
                out[(p * out_height + i) * out_width + j] = largest;
            }
    return y;
}
"""

kernel = load_inline(name="direct", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
