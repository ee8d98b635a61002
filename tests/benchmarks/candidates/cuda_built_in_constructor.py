"""The extension is built when the module is constructed, from a method."""

import torch
from torch.utils.cpp_extension import load_inline


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ext = self._build()

    @staticmethod
    def _build():
        return load_inline(
            name="cumsum_ext",
            cpp_sources="torch::Tensor row_cumsum(torch::Tensor x);",
            cuda_sources="""
            __global__ void k(const float* x, float* y, int cols) {
              float s = 0;
              for (int i = 0; i < cols; ++i) { s += x[threadIdx.x * cols + i]; y[threadIdx.x * cols + i] = s; }
            }
            torch::Tensor row_cumsum(torch::Tensor x) {
              auto y = torch::empty_strided(x.sizes(), x.strides(), x.options());
              k<<<1, x.size(0)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
              return y;
            }
            """,
            functions=["row_cumsum"],
        )

    def forward(self, x):
        return self.ext.row_cumsum(x)


def get_inputs():
    return [torch.randn(32, 50)]
