# expect: correct
# says:
# family: order
"""Chan's merge of two halves, each by Welford."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cmath>

struct Part { double mean = 0.0, spread = 0.0; int64_t count = 0; };

static Part part_of(const float* from, int64_t begin, int64_t end) {
    Part part;
    for (int64_t j = begin; j < end; ++j) {
        ++part.count;
        const double step = from[j] - part.mean;
        part.mean += step / part.count;
        part.spread += step * (from[j] - part.mean);
    }
    return part;
}

void run(torch::Tensor x, torch::Tensor means, torch::Tensor variances) {
    const int64_t rows = x.size(0), columns = x.size(1);
    for (int64_t i = 0; i < rows; ++i) {
        const float* from = x.data_ptr<float>() + i * columns;
        const Part a = part_of(from, 0, columns / 2), b = part_of(from, columns / 2, columns);
        const double gap = b.mean - a.mean;
        means.data_ptr<float>()[i] = static_cast<float>(a.mean + gap * b.count / columns);
        const double spread = a.spread + b.spread + gap * gap * a.count * b.count / columns;
        variances.data_ptr<float>()[i] = static_cast<float>(spread / (columns - 1));
    }
}
"""

kernel = load_inline(name="merged_halves", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x):
        means, variances = torch.empty(x.shape[0]), torch.empty(x.shape[0])
        kernel.run(x, means, variances)
        return (means, variances)
