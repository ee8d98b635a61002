# expect: correct
# says:
# family: threads
"""Two threads of its own, both joined."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>
#include <cmath>
#include <thread>

static void part(const float* in, float* out, int64_t columns, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
        const float* from = in + i * columns;
        const float largest = *std::max_element(from, from + columns);
        float sum = 0.0f;
        for (int64_t j = 0; j < columns; ++j) sum += std::exp(from[j] - largest);
        out[i] = largest + std::log(sum);
    }
}

torch::Tensor run(torch::Tensor x) {
    const int64_t rows = x.size(0);
    auto y = torch::empty({rows}, x.options());
    std::thread first(part, x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), 0, rows / 2);
    std::thread second(part, x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), rows / 2, rows);
    first.join();
    second.join();
    return y;
}
"""

kernel = load_inline(name="threads", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        return kernel.run(x)
