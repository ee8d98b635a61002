// Views, copies and factories: the parts of Tensor that need arithmetic on sizes and strides.
#pragma once
#include <kevin/tensor.h>

namespace kevin_torch {

inline std::vector<int64_t> Tensor::dense_strides(IntArrayRef sizes, MemoryFormat format) {
  const size_t rank = sizes.size();
  std::vector<int64_t> strides(rank, 1), order;
  for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(rank - 1 - i));
  if (format == MemoryFormat::ChannelsLast && rank == 4) order = {1, 3, 2, 0};
  if (format == MemoryFormat::ChannelsLast3d && rank == 5) order = {1, 4, 3, 2, 0};
  int64_t step = 1;
  for (int64_t d : order) {
    strides[d] = step;
    step *= sizes[d] > 1 ? sizes[d] : 1;
  }
  return strides;
}

inline bool Tensor::is_non_overlapping_and_dense() const {
  std::vector<std::pair<int64_t, int64_t>> dims;  // (stride, size), smallest stride first
  for (int64_t d = 0; d < dim(); ++d) {
    if (size(d) == 1) continue;
    auto at = dims.begin();
    while (at != dims.end() && at->first <= stride(d)) ++at;
    dims.insert(at, {stride(d), size(d)});
  }
  int64_t step = 1;
  for (const auto& [have, size] : dims) {
    if (have != step) return false;
    step *= size;
  }
  return true;
}

inline Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {}) {
  const Device where = options.device();
  AtenTensorHandle out = nullptr;
  KEVIN_CALL(aoti_torch_empty_strided, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
             static_cast<int32_t>(options.dtype().toScalarType()), static_cast<int32_t>(where.type()),
             where.index(), &out);
  return Tensor::steal(out);
}
inline Tensor empty(IntArrayRef sizes, const TensorOptions& options = {}, std::optional<MemoryFormat> format = nullopt) {
  for (int64_t size : sizes)
    if (size < 0) raise<Error>(str("Trying to create tensor with negative dimension ", size, ": ", sizes));
  return empty_strided(sizes, Tensor::dense_strides(sizes, format.value_or(MemoryFormat::Contiguous)), options);
}
inline Tensor Tensor::copied(const std::vector<int64_t>& strides, ScalarType type, Device where, bool non_blocking) const {
  Tensor out = empty_strided(sizes(), strides, TensorOptions(type).device(where));
  out.copy_(*this, non_blocking);
  return out;
}
// Strides of a copy: the tensor's own when it is dense, row-major otherwise (torch's preserve_format).
inline std::vector<int64_t> preserved_strides(const Tensor& self) {
  return self.is_non_overlapping_and_dense() ? self.strides().vec() : Tensor::dense_strides(self.sizes());
}
inline Tensor Tensor::clone(std::optional<MemoryFormat> format) const {
  const bool preserve = !format || *format == MemoryFormat::Preserve;
  return copied(preserve ? preserved_strides(*this) : dense_strides(sizes(), *format), scalar_type(), device());
}
inline Tensor Tensor::to(Device where, ScalarType type, bool non_blocking, bool copy) const {
  const bool here = where.type() == device_type() && (!where.has_index() || where.is_cpu() || where.index() == get_device());
  if (here && type == scalar_type() && !copy) return *this;
  return copied(preserved_strides(*this), type, where, non_blocking);
}
template <class T> T Tensor::item() const {
  if (numel() != 1) raise<Error>(kevin_torch::str("a Tensor with ", numel(), " elements cannot be converted to Scalar"));
  const Tensor here = to(Device(kCPU), type_of<T>());
  return *static_cast<const T*>(here.data_ptr());
}
inline Scalar Tensor::item() const {
  if (scalar_type() == kBool) return item<bool>();
  return is_floating_point() ? Scalar(item<double>()) : Scalar(item<int64_t>());
}

// The strides that give `shape` over the same memory, or nothing when only a copy can (ATen/TensorUtils.cpp).
inline std::optional<std::vector<int64_t>> view_strides(IntArrayRef sizes, IntArrayRef strides, IntArrayRef shape, int64_t numel) {
  if (numel == 0) return sizes == shape ? strides.vec() : Tensor::dense_strides(shape);
  std::vector<int64_t> out(shape.size(), 1);
  int64_t target = static_cast<int64_t>(shape.size()) - 1, base = strides.empty() ? 1 : strides.back();
  int64_t run = 1, taken = 1;
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    run *= sizes[d];
    if (d != 0 && (sizes[d - 1] == 1 || strides[d - 1] == run * base)) continue;
    while (target >= 0 && (taken < run || shape[target] == 1)) {
      out[target] = taken * base;
      taken *= shape[target--];
    }
    if (taken != run) return nullopt;
    if (d > 0) { base = strides[d - 1]; run = taken = 1; }
  }
  return target == -1 ? std::optional(out) : nullopt;
}
inline std::vector<int64_t> inferred_shape(IntArrayRef shape, int64_t numel) {
  std::vector<int64_t> out = shape.vec();
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == -1 && open < 0) open = static_cast<int64_t>(i);
    else known *= out[i];
  }
  if (open >= 0 && known > 0 && numel % known == 0) out[open] = numel / known;
  else if (open >= 0 || known != numel) raise<Error>(str("shape '", shape, "' is invalid for input of size ", numel));
  return out;
}
inline Tensor Tensor::view(IntArrayRef shape) const {
  const auto wanted = inferred_shape(shape, numel());
  const auto steps = view_strides(sizes(), strides(), wanted, numel());
  if (!steps)
    raise<Error>("view size is not compatible with input tensor's size and stride (at least one dimension spans "
                 "across two contiguous subspaces). Use .reshape(...) instead.");
  return as_strided(wanted, *steps);
}
inline Tensor Tensor::reshape(IntArrayRef shape) const {
  const auto wanted = inferred_shape(shape, numel());
  const auto steps = view_strides(sizes(), strides(), wanted, numel());
  return steps ? as_strided(wanted, *steps) : copied(dense_strides(sizes()), scalar_type(), device()).view(wanted);
}
inline Tensor Tensor::flatten(int64_t start, int64_t end) const {
  const int64_t rank = dim();
  if (rank == 0) return reshape({1});
  start = wrapped(start, rank);
  end = wrapped(end, rank);
  if (start > end) raise<Error>("flatten() has invalid args: start_dim cannot come after end_dim");
  std::vector<int64_t> shape;
  int64_t joined = 1;
  for (int64_t d = 0; d < rank; ++d) {
    if (d < start || d > end) { shape.push_back(size(d)); continue; }
    joined *= size(d);
    if (d == end) shape.push_back(joined);
  }
  return reshape(shape);
}
inline Tensor Tensor::squeeze() const {
  std::vector<int64_t> shape, steps;
  for (int64_t d = 0; d < dim(); ++d)
    if (size(d) != 1) { shape.push_back(size(d)); steps.push_back(stride(d)); }
  return as_strided(shape, steps);
}
inline Tensor Tensor::squeeze(int64_t d) const {
  d = wrapped(d, dim());
  if (dim() == 0 || size(d) != 1) return *this;
  auto shape = sizes().vec(), steps = strides().vec();
  shape.erase(shape.begin() + d);
  steps.erase(steps.begin() + d);
  return as_strided(shape, steps);
}
inline Tensor Tensor::unsqueeze(int64_t d) const {
  d = wrapped(d, dim() + 1);
  auto shape = sizes().vec(), steps = strides().vec();
  const int64_t step = d < dim() ? shape[d] * steps[d] : 1;
  shape.insert(shape.begin() + d, 1);
  steps.insert(steps.begin() + d, step);
  return as_strided(shape, steps);
}
inline Tensor Tensor::transpose(int64_t a, int64_t b) const {
  if (dim() == 0) return *this;
  auto shape = sizes().vec(), steps = strides().vec();
  a = wrapped(a, dim());
  b = wrapped(b, dim());
  std::swap(shape[a], shape[b]);
  std::swap(steps[a], steps[b]);
  return as_strided(shape, steps);
}
inline Tensor Tensor::permute(IntArrayRef order) const {
  if (static_cast<int64_t>(order.size()) != dim())
    raise<Error>(kevin_torch::str("permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
                     "desired ordering of dimensions i.e. input.dim() = ", dim(), " is not equal to len(dims) = ", order.size()));
  std::vector<int64_t> shape, steps;
  std::vector<bool> seen(order.size());
  for (int64_t d : order) {
    d = wrapped(d, dim());
    if (seen[d]) raise<Error>("permute(): duplicate dims are not allowed.");
    seen[d] = true;
    shape.push_back(size(d));
    steps.push_back(stride(d));
  }
  return as_strided(shape, steps);
}
inline Tensor Tensor::expand(IntArrayRef wanted, bool) const {
  const int64_t lead = static_cast<int64_t>(wanted.size()) - dim();
  if (lead < 0) raise<Error>(kevin_torch::str("expand: the number of sizes provided (", wanted.size(), ") must be greater or equal to the number of dimensions in the tensor (", dim(), ")"));
  std::vector<int64_t> shape, steps;
  for (int64_t i = 0; i < static_cast<int64_t>(wanted.size()); ++i) {
    const int64_t have = i < lead ? 1 : size(i - lead), want = wanted[i] == -1 && i >= lead ? have : wanted[i];
    if (have != want && have != 1)
      raise<Error>(kevin_torch::str("The expanded size of the tensor (", want, ") must match the existing size (", have, ") at non-singleton dimension ", i));
    shape.push_back(want);
    steps.push_back(i < lead || (have == 1 && want != 1) ? 0 : stride(i - lead));
  }
  return as_strided(shape, steps);
}
inline Tensor Tensor::narrow(int64_t d, int64_t start, int64_t length) const {
  d = wrapped(d, dim());
  if (start < 0) start += size(d);
  if (dim() == 0 || start < 0 || length < 0 || start + length > size(d))
    raise<Error>(kevin_torch::str("start (", start, ") + length (", length, ") exceeds dimension size (", dim() ? size(d) : 0, ")."));
  auto shape = sizes().vec();
  shape[d] = length;
  return as_strided(shape, strides(), storage_offset() + start * stride(d));
}
inline Tensor Tensor::select(int64_t d, int64_t index) const {
  if (dim() == 0) raise<IndexError>("select() cannot be applied to a 0-dim tensor.");
  d = wrapped(d, dim());
  if (index < -size(d) || index >= size(d))
    raise<IndexError>(kevin_torch::str("index ", index, " is out of bounds for dimension ", d, " with size ", size(d)));
  auto shape = sizes().vec(), steps = strides().vec();
  const int64_t offset = storage_offset() + (index < 0 ? index + size(d) : index) * stride(d);
  shape.erase(shape.begin() + d);
  steps.erase(steps.begin() + d);
  return as_strided(shape, steps, offset);
}
inline Tensor Tensor::slice(int64_t d, std::optional<int64_t> from, std::optional<int64_t> to, int64_t step) const {
  d = wrapped(d, dim());
  if (dim() == 0 || step <= 0) raise<Error>("slice step must be positive");
  const int64_t length = size(d);
  auto clamped = [length](int64_t i) { i = i < 0 ? i + length : i; return i < 0 ? int64_t{0} : i > length ? length : i; };
  const int64_t start = clamped(from.value_or(0)), end = clamped(to.value_or(length));
  auto shape = sizes().vec(), steps = strides().vec();
  shape[d] = end > start ? (end - start + step - 1) / step : 0;
  steps[d] *= step;
  return as_strided(shape, steps, storage_offset() + start * stride(d));
}

// --- factories -----------------------------------------------------------------------------------

inline Tensor zeros(IntArrayRef sizes, const TensorOptions& options = {}) {
  Tensor out = empty(sizes, options);
  out.zero_();
  return out;
}
inline Tensor empty_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = nullopt) {
  const bool preserve = !format || *format == MemoryFormat::Preserve;
  const auto strides = preserve ? preserved_strides(self) : Tensor::dense_strides(self.sizes(), *format);
  return empty_strided(self.sizes(), strides, self.options().merge_in(options));
}
inline Tensor zeros_like(const Tensor& self, const TensorOptions& options = {}, std::optional<MemoryFormat> format = nullopt) {
  Tensor out = empty_like(self, options, format);
  out.zero_();
  return out;
}
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {}) {
  AtenTensorHandle out = nullptr;
  KEVIN_CALL(aoti_torch_create_tensor_from_blob, data, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
             0, static_cast<int32_t>(options.dtype().toScalarType()), static_cast<int32_t>(options.device().type()),
             options.device().index(), &out);
  return Tensor::steal(out);
}
inline Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {}) {
  return from_blob(data, sizes, Tensor::dense_strides(sizes), options);
}

struct NoGradGuard {
  const bool before = aoti_torch_grad_mode_is_enabled();
  NoGradGuard() { aoti_torch_grad_mode_set_enabled(false); }
  ~NoGradGuard() { aoti_torch_grad_mode_set_enabled(before); }
};
}  // namespace kevin_torch
