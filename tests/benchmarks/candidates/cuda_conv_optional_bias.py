"""A direct convolution; the bias is optional, strides and padding have defaults."""

import torch
from torch.utils.cpp_extension import load_inline


cuda_src = """
#include <torch/extension.h>
#include <c10/util/Optional.h>

__global__ void conv(const float* x, const float* w, const float* b, float* y, int N, int C, int H, int W, int O, int R,
                     int P, int Q, int stride, int pad) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N * O * P * Q) return;
  int q = i % Q, p = i / Q % P, o = i / (P * Q) % O, n = i / (O * P * Q);
  float acc = b != nullptr ? b[o] : 0.f;
  for (int c = 0; c < C; ++c)
    for (int r = 0; r < R; ++r)
      for (int s = 0; s < R; ++s) {
        int h = p * stride + r - pad, v = q * stride + s - pad;
        if (h >= 0 && h < H && v >= 0 && v < W) acc += x[((n * C + c) * H + h) * W + v] * w[((o * C + c) * R + r) * R + s];
      }
  y[i] = acc;
}

torch::Tensor conv2d_forward(torch::Tensor x, torch::Tensor w, c10::optional<torch::Tensor> bias, int64_t stride, int64_t pad) {
  int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3), O = w.size(0), R = w.size(2);
  int P = (H + 2 * pad - R) / stride + 1, Q = (W + 2 * pad - R) / stride + 1;
  auto y = torch::empty({N, O, P, Q}, x.options());
  const float* b = bias.has_value() && bias->defined() ? bias.value().data_ptr<float>() : nullptr;
  int total = y.numel();
  conv<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), b, y.data_ptr<float>(), N, C, H, W, O, R, P,
                                     Q, stride, pad);
  cudaError_t err = cudaGetLastError();
  if (err != cudaSuccess) throw std::runtime_error(cudaGetErrorString(err));
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("conv2d_forward", &conv2d_forward, py::arg("x"), py::arg("w"), py::arg("bias") = py::none(), py::arg("stride") = 1,
        py::arg("pad") = 0);
}
"""
ext = load_inline(name="conv_ext", cpp_sources=[], cuda_sources=[cuda_src])


class ModelNew(torch.nn.Module):
    def forward(self, x, w, b):
        return ext.conv2d_forward(x, w, b, pad=1) + ext.conv2d_forward(x, w, stride=1, pad=1)


def get_inputs():
    return [torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3), torch.randn(4)]
