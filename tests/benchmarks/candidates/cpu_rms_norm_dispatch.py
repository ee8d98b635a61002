"""RMS norm with AT_DISPATCH and a default argument."""

import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/extension.h>
namespace py = pybind11;

template <typename scalar_t>
void rms_norm_kernel(const scalar_t* x, const scalar_t* w, scalar_t* y, int64_t rows, int64_t cols, double eps) {
    for (int64_t r = 0; r < rows; ++r) {
        scalar_t sum = 0;
        for (int64_t c = 0; c < cols; ++c) sum += x[r * cols + c] * x[r * cols + c];
        const scalar_t scale = scalar_t(1) / std::sqrt(sum / cols + scalar_t(eps));
        for (int64_t c = 0; c < cols; ++c) y[r * cols + c] = x[r * cols + c] * scale * w[c];
    }
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& w, double eps) {
    TORCH_CHECK(x.size(-1) == w.numel(), "weight must have ", x.size(-1), " elements");
    auto y = at::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", ([&] {
        rms_norm_kernel<scalar_t>(x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
                                  x.numel() / x.size(-1), x.size(-1), eps);
    }));
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("rms_norm", &rms_norm, "RMS norm", py::arg("x"), py::arg("w"), py::arg("eps") = 1e-6);
}
"""
ext = load_inline(name="rms_norm", cpp_sources=source, extra_cflags=["-O2"])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.rms_norm(*inputs)


def get_inputs():
    return [torch.randn(64, 256), torch.rand(256)]
