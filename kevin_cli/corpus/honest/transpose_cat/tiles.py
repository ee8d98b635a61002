# expect: correct
# says:
# family: order
"""Through a tile of 8 x 8, cut off at the edges."""

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <algorithm>

torch::Tensor run(torch::Tensor x, torch::Tensor y) {
    const int64_t batch = x.size(0), a = x.size(1), b = x.size(2), more = y.size(1), tile = 8;
    auto out = torch::empty({batch, b + more, a}, x.options());
    float* to = out.data_ptr<float>();
    for (int64_t n = 0; n < batch; ++n)
        for (int64_t i0 = 0; i0 < b; i0 += tile)
            for (int64_t j0 = 0; j0 < a; j0 += tile) {
                float room[8][8];
                const int64_t i1 = std::min(i0 + tile, b), j1 = std::min(j0 + tile, a);
                for (int64_t j = j0; j < j1; ++j)
                    for (int64_t i = i0; i < i1; ++i) room[i - i0][j - j0] = x.data_ptr<float>()[(n * a + j) * b + i];
                for (int64_t i = i0; i < i1; ++i)
                    for (int64_t j = j0; j < j1; ++j) to[(n * (b + more) + i) * a + j] = room[i - i0][j - j0];
            }
    out.narrow(1, b, more).copy_(y);
    return out;
}
"""

kernel = load_inline(name="tiles", cpp_sources=SOURCE, functions=["run"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return kernel.run(x, y)
