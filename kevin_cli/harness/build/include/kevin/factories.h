// Tensors of given contents, and views as free functions: what needs neither an operator nor Python.
#pragma once
#include <kevin/shapes.h>

extern "C" {
AOTITorchError aoti_torch_cpu_fill__Scalar(AtenTensorHandle, double) __attribute__((weak));
AOTITorchError aoti_torch_cuda_fill__Scalar(AtenTensorHandle, double) __attribute__((weak));
}

namespace kevin_torch {

inline Tensor& Tensor::fill_(const Scalar& value) {
  const double number = value.toDouble();
  if (value.isIntegral(false) && static_cast<int64_t>(number) != value.toLong())
    raise<Error>("fill_ with an integer of more than 53 bits is not supported here");
  if (is_cuda()) KEVIN_CALL(aoti_torch_cuda_fill__Scalar, checked(), number);
  else KEVIN_CALL(aoti_torch_cpu_fill__Scalar, checked(), number);
  return *this;
}
inline Tensor Tensor::new_empty(IntArrayRef sizes, const TensorOptions& given) const { return kevin_torch::empty(sizes, options().merge_in(given)); }
inline Tensor Tensor::new_zeros(IntArrayRef sizes, const TensorOptions& given) const { return kevin_torch::zeros(sizes, options().merge_in(given)); }
inline Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& given = {}) {
  const ScalarType inferred = value.isFloatingPoint() ? kFloat : value.isBoolean() ? kBool : kLong;
  Tensor out = empty(sizes, given.has_dtype() ? given : given.dtype(inferred));
  out.fill_(value);
  return out;
}
inline Tensor ones(IntArrayRef sizes, const TensorOptions& options = {}) { return full(sizes, 1, options.dtype(options.dtype())); }
inline Tensor full_like(const Tensor& self, const Scalar& value, const TensorOptions& options = {}) {
  Tensor out = empty_like(self, options);
  out.fill_(value);
  return out;
}
inline Tensor ones_like(const Tensor& self, const TensorOptions& options = {}) { return full_like(self, 1, options); }
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(ArrayRef<T> values, const TensorOptions& o = {}) {
  Tensor out = empty({static_cast<int64_t>(values.size())}, TensorOptions(type_of<T>()));
  T* data = out.data_ptr<T>();
  for (size_t i = 0; i < values.size(); ++i) data[i] = values[i];
  return out.to(o);
}
template <class T> Tensor tensor(const std::vector<T>& values, const TensorOptions& o = {}) { return tensor(ArrayRef<T>(values), o); }
template <class T> Tensor tensor(std::initializer_list<T> values, const TensorOptions& o = {}) { return tensor(ArrayRef<T>(values), o); }
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
Tensor tensor(T value, const TensorOptions& o = {}) { return tensor(ArrayRef<T>(value), o).reshape({}).to(o); }
inline Tensor scalar_tensor(const Scalar& value, const TensorOptions& options = {}) { return full({}, value, options.dtype(options.dtype())); }
inline Tensor squeeze(const Tensor& self) { return self.squeeze(); }
inline Tensor squeeze(const Tensor& self, int64_t d) { return self.squeeze(d); }
inline Tensor unsqueeze(const Tensor& self, int64_t d) { return self.unsqueeze(d); }
inline Tensor flatten(const Tensor& self, int64_t start = 0, int64_t end = -1) { return self.flatten(start, end); }
inline Tensor reshape(const Tensor& self, IntArrayRef shape) { return self.reshape(shape); }
inline Tensor transpose(const Tensor& self, int64_t a, int64_t b) { return self.transpose(a, b); }
inline Tensor permute(const Tensor& self, IntArrayRef order) { return self.permute(order); }
inline Tensor t(const Tensor& self) { return self.t(); }
inline Tensor clone(const Tensor& self) { return self.clone(); }
inline bool is_floating_point(const Tensor& self) { return self.is_floating_point(); }
}  // namespace kevin_torch
