"""A small convolution with defaults and integers."""

import torch
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void conv1d(const float* x, const float* w, float* y, int channels, int length,
                       int out_length, int k, int stride) {
    const int o = blockIdx.x * blockDim.x + threadIdx.x, f = blockIdx.y, n = blockIdx.z;
    if (o >= out_length) return;
    float s = 0.f;
    for (int c = 0; c < channels; ++c)
        for (int i = 0; i < k; ++i)
            s += x[(n * channels + c) * length + o * stride + i] * w[(f * channels + c) * k + i];
    y[(n * gridDim.y + f) * out_length + o] = s;
}

torch::Tensor conv(torch::Tensor x, torch::Tensor w, int stride) {
    const int n = x.size(0), c = x.size(1), l = x.size(2), f = w.size(0), k = w.size(2), out = (l - k) / stride + 1;
    torch::Tensor y = torch::empty({n, f, out}, torch::device(torch::kCUDA).dtype(torch::kFloat32));
    dim3 grid((out + 127) / 128, f, n);
    conv1d<<<grid, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), c, l, out, k, stride);
    auto error = cudaGetLastError();
    if (error != cudaSuccess) AT_ERROR("launch failed: ", cudaGetErrorString(error));
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("conv", &conv, py::arg("x"), py::arg("w"), py::arg("stride") = 1); }
"""
ext = load_inline(name="conv", cpp_sources=[], cuda_sources=[cuda_source])


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        return ext.conv(*inputs)


def get_inputs():
    return [torch.randn(2, 8, 200), torch.randn(4, 8, 5)]
