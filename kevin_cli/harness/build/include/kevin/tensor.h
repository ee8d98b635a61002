// torch::Tensor over libtorch's stable C interface.
//
// Ownership: a Tensor owns one handle (a counted reference to the real tensor) and gives it back when it
// dies; copies take a reference of their own. Views are made without the dispatcher and without autograd.
#pragma once
#include <kevin/types.h>

namespace kevin_torch {

template <class T> struct DefaultPtrTraits { using PtrType = T*; };
template <class T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
class TensorAccessor {
 public:
  using Ptr = typename Traits<T>::PtrType;
  C10_HOST_DEVICE TensorAccessor(Ptr data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  C10_HOST_DEVICE auto operator[](index_t i) const -> std::conditional_t<N == 1, T&, TensorAccessor<T, N - (N > 1), Traits, index_t>> {
    if constexpr (N == 1) return data_[i * strides_[0]];
    else return TensorAccessor<T, N - 1, Traits, index_t>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }
  C10_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
  C10_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
  C10_HOST_DEVICE Ptr data() const { return data_; }
  IntArrayRef sizes() const { return {sizes_, N}; }
  IntArrayRef strides() const { return {strides_, N}; }

 private:
  Ptr data_;
  const index_t* sizes_;
  const index_t* strides_;
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
class GenericPackedTensorAccessor {  // holds its sizes, so that it can be a kernel's argument
 public:
  using Ptr = typename Traits<T>::PtrType;
  GenericPackedTensorAccessor(Ptr data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<index_t>(sizes[i]);
      strides_[i] = static_cast<index_t>(strides[i]);
    }
  }
  C10_HOST_DEVICE auto operator[](index_t i) const -> std::conditional_t<N == 1, T&, TensorAccessor<T, N - (N > 1), Traits, index_t>> {
    if constexpr (N == 1) return data_[i * strides_[0]];
    else return TensorAccessor<T, N - 1, Traits, index_t>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }
  C10_HOST_DEVICE index_t size(index_t i) const { return sizes_[i]; }
  C10_HOST_DEVICE index_t stride(index_t i) const { return strides_[i]; }
  C10_HOST_DEVICE Ptr data() const { return data_; }

 private:
  Ptr data_;
  index_t sizes_[N];
  index_t strides_[N];
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, index_t>;

class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor& other) : handle_(retained(other.handle_)) {}
  Tensor(Tensor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept { std::swap(handle_, other.handle_); return *this; }
  ~Tensor() { reset(); }
  static Tensor steal(AtenTensorHandle handle) { Tensor out; out.handle_ = handle; return out; }  // takes ownership
  AtenTensorHandle handle() const { return handle_; }                                            // borrowed
  AtenTensorHandle release() { return std::exchange(handle_, nullptr); }                         // gives ownership
  void reset() { if (handle_) aoti_torch_delete_tensor_object(std::exchange(handle_, nullptr)); }

  // --- what it is
  bool defined() const { return handle_ != nullptr; }
  int64_t dim() const { return get(aoti_torch_get_dim); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return get(aoti_torch_get_numel); }
  IntArrayRef sizes() const { return {pointer(aoti_torch_get_sizes), static_cast<size_t>(dim())}; }
  IntArrayRef strides() const { return {pointer(aoti_torch_get_strides), static_cast<size_t>(dim())}; }
  int64_t size(int64_t d) const { return sizes()[wrapped(d, dim())]; }
  int64_t stride(int64_t d) const { return strides()[wrapped(d, dim())]; }
  int64_t storage_offset() const { return get(aoti_torch_get_storage_offset); }
  ScalarType scalar_type() const { return static_cast<ScalarType>(get<int32_t>(aoti_torch_get_dtype)); }
  TypeMeta dtype() const { return scalar_type(); }
  TypeProperties type() const { return {scalar_type(), device_type()}; }
  DeviceType device_type() const { return static_cast<DeviceType>(get<int32_t>(aoti_torch_get_device_type)); }
  DeviceIndex get_device() const { return static_cast<DeviceIndex>(get<int32_t>(aoti_torch_get_device_index)); }
  Device device() const { return Device(device_type(), device_type() == kCPU ? DeviceIndex(-1) : get_device()); }
  Layout layout() const { return kStrided; }
  bool is_cuda() const { return device_type() == kCUDA; }
  bool is_cpu() const { return device_type() == kCPU; }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const;
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_sparse() const { return get<int32_t>(aoti_torch_get_layout) != 0; }
  int64_t element_size() const { return static_cast<int64_t>(elementSize(scalar_type())); }
  int64_t itemsize() const { return element_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel() * element_size()); }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()); }
  bool is_same(const Tensor& other) const { return handle_ == other.handle_ || (data_ptr() == other.data_ptr() && sizes() == other.sizes()); }

  // --- its memory
  void* data_ptr() const {
    void* out = nullptr;
    KEVIN_CALL(aoti_torch_get_data_ptr, checked(), &out);
    return out;
  }
  template <class T> T* data_ptr() const {
    if constexpr (!std::is_void_v<T>) check_type(type_of<T>());
    return static_cast<T*>(data_ptr());
  }
  template <class T> const T* const_data_ptr() const { return data_ptr<std::remove_const_t<T>>(); }
  template <class T> T* mutable_data_ptr() const { return data_ptr<T>(); }
  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  template <class T> T* data() const { return data_ptr<T>(); }
  template <class T, size_t N> TensorAccessor<T, N> accessor() const& {
    check_dim(N);
    return {data_ptr<std::remove_const_t<T>>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, Traits> packed_accessor32() const& { return packed<T, N, Traits, int32_t>(); }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, Traits> packed_accessor64() const& { return packed<T, N, Traits, int64_t>(); }
  template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class index_t = int64_t>
  PackedTensorAccessor<T, N, Traits, index_t> packed_accessor() const& { return packed<T, N, Traits, index_t>(); }
  template <class T> T item() const;
  Scalar item() const;

  // --- views of the same memory
  Tensor as_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<int64_t> offset = nullopt) const;
  Tensor view(IntArrayRef shape) const;
  Tensor reshape(IntArrayRef shape) const;
  Tensor view_as(const Tensor& other) const { return view(other.sizes()); }
  Tensor reshape_as(const Tensor& other) const { return reshape(other.sizes()); }
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  Tensor squeeze() const;
  Tensor squeeze(int64_t d) const;
  Tensor unsqueeze(int64_t d) const;
  Tensor transpose(int64_t a, int64_t b) const;
  Tensor t() const { return dim() < 2 ? *this : transpose(0, 1); }
  Tensor permute(IntArrayRef order) const;
  Tensor expand(IntArrayRef shape, bool implicit = false) const;
  Tensor expand_as(const Tensor& other) const { return expand(other.sizes()); }
  Tensor select(int64_t d, int64_t index) const;
  Tensor narrow(int64_t d, int64_t start, int64_t length) const;
  Tensor slice(int64_t d = 0, std::optional<int64_t> start = nullopt, std::optional<int64_t> end = nullopt, int64_t step = 1) const;
  Tensor operator[](int64_t index) const { return select(0, index); }
  Tensor detach() const { return as_strided(sizes(), strides()); }
  Tensor alias() const { return detach(); }

  // --- copies
  Tensor contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  Tensor clone(std::optional<MemoryFormat> format = nullopt) const;
  Tensor to(ScalarType type, bool non_blocking = false, bool copy = false) const { return to(device(), type, non_blocking, copy); }
  Tensor to(TypeMeta type) const { return to(type.toScalarType()); }
  Tensor to(Device where, bool non_blocking = false) const { return to(where, scalar_type(), non_blocking); }
  Tensor to(DeviceType where) const { return to(Device(where), scalar_type()); }
  Tensor to(const char* where) const { return to(Device(where), scalar_type()); }
  Tensor to(Device where, ScalarType type, bool non_blocking = false, bool copy = false) const;
  Tensor to(const TensorOptions& o, bool non_blocking = false, bool copy = false) const {
    return to(o.device_opt().value_or(device()), o.dtype_opt().value_or(scalar_type()), non_blocking, copy);
  }
  Tensor to(const Tensor& like) const { return to(like.device(), like.scalar_type()); }
  Tensor toType(ScalarType type) const { return to(type); }
  Tensor type_as(const Tensor& other) const { return to(other); }
  Tensor cpu() const { return to(kCPU); }
  Tensor cuda() const { return to(kCUDA); }
  Tensor& copy_(const Tensor& source, bool non_blocking = false) {
    KEVIN_CALL(aoti_torch_copy_, checked(), source.checked(), non_blocking);
    return *this;
  }
  Tensor& zero_() { KEVIN_CALL(aoti_torch_zero_, checked()); return *this; }
  const Tensor& zero_() const { KEVIN_CALL(aoti_torch_zero_, checked()); return *this; }

  Tensor& fill_(const Scalar& value);
  Tensor new_empty(IntArrayRef sizes, const TensorOptions& options = {}) const;
  Tensor new_zeros(IntArrayRef sizes, const TensorOptions& options = {}) const;

#ifndef KEVIN_LEAN  // see recipe.py: units that name no operator do without them
#include <kevin/methods.inc.h>
#endif

  // The handle, or torch's own complaint about an undefined tensor.
  AtenTensorHandle checked() const {
    if (__builtin_expect(!handle_, 0)) fail(Fault::Error, "Expected a proper Tensor but got None (or an undefined Tensor in C++)");
    return handle_;
  }
  static int64_t wrapped(int64_t d, int64_t rank);
  static std::vector<int64_t> dense_strides(IntArrayRef sizes, MemoryFormat format = MemoryFormat::Contiguous);

 private:
  AtenTensorHandle handle_ = nullptr;

  static AtenTensorHandle retained(AtenTensorHandle handle);
  template <class T = int64_t> T get(AOTITorchError (*call)(AtenTensorHandle, T*)) const {
    T out{};
    if (__builtin_expect(call(checked(), &out) != 0, 0)) raise_from_torch("a property of a tensor");
    return out;
  }
  const int64_t* pointer(AOTITorchError (*call)(AtenTensorHandle, int64_t**)) const {
    int64_t* out = nullptr;
    if (__builtin_expect(call(checked(), &out) != 0, 0)) raise_from_torch("a property of a tensor");
    return out;
  }
  bool has_strides(const std::vector<int64_t>& wanted) const;
  void check_type(ScalarType wanted) const;
  void check_dim(size_t wanted) const;
  template <class T, size_t N, template <class> class Traits, class index_t>
  GenericPackedTensorAccessor<T, N, Traits, index_t> packed() const {
    check_dim(N);
    if (sizeof(index_t) == 4 && numel() > 2147483647)
      fail(Fault::Error, "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
    return {data_ptr<std::remove_const_t<T>>(), sizes().data(), strides().data()};
  }
  Tensor copied(const std::vector<int64_t>& strides, ScalarType type, Device where, bool non_blocking = false) const;
};
using TensorList = ArrayRef<Tensor>;
using ITensorListRef = TensorList;

void append(Text& out, const Tensor& tensor);
}  // namespace kevin_torch
