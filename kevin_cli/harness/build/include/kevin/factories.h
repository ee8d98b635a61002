// Copies and factories: declared here, defined once in support/core.cpp.
#pragma once
#include <kevin/tensor.h>

namespace kevin_torch {

Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {});
Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}, std::optional<MemoryFormat> format = nullopt);
std::vector<int64_t> preserved_strides(const Tensor& self);
std::optional<std::vector<int64_t>> view_strides(IntArrayRef sizes, IntArrayRef strides, IntArrayRef shape, int64_t numel);
std::vector<int64_t> inferred_shape(IntArrayRef shape, int64_t numel);
Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {});
Tensor empty_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = nullopt);
Tensor zeros_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = nullopt);
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {});
Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& given = {});
Tensor ones(IntArrayRef sizes, const TensorOptions& options = {});
Tensor full_like(const Tensor& self, const Scalar& value, const TensorOptions& options = {});
Tensor ones_like(const Tensor& self, const TensorOptions& options = {});
Tensor scalar_tensor(const Scalar& value, const TensorOptions& options = {});

template <class T> T Tensor::item() const {
  if (numel() != 1) fail_with(Fault::Error, "a Tensor with ", numel(), " elements cannot be converted to Scalar");
  const Tensor here = to(Device(kCPU), type_of<T>());
  return *static_cast<const T*>(here.data_ptr());
}
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
struct NoGradGuard {
  const bool before = aoti_torch_grad_mode_is_enabled();
  NoGradGuard() { aoti_torch_grad_mode_set_enabled(false); }
  ~NoGradGuard() { aoti_torch_grad_mode_set_enabled(before); }
};
}  // namespace kevin_torch
