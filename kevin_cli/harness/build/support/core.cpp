// What the thin headers only declare: messages, views, copies and factories. Compiled once for a machine
// (see support.py) and linked into every library with hidden visibility.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <kevin/errors.h>
#include <kevin/factories.h>

extern "C" {
AOTITorchError aoti_torch_cpu_fill__Scalar(AtenTensorHandle, double) __attribute__((weak));
AOTITorchError aoti_torch_cuda_fill__Scalar(AtenTensorHandle, double) __attribute__((weak));
}

namespace kevin_torch {

// --- text ------------------------------------------------------------------------------------------

Text::Text() : data_(static_cast<char*>(std::calloc(64, 1))), size_(0), room_(64) {
  if (!data_) std::abort();
}
Text::~Text() { std::free(data_); }
Text& Text::add(const char* characters, size_t count) {
  if (size_ + count + 1 > room_) {
    room_ = 2 * (size_ + count + 1);
    data_ = static_cast<char*>(std::realloc(data_, room_));
    if (!data_) std::abort();
  }
  std::memcpy(data_ + size_, characters, count);
  size_ += count;
  data_[size_] = 0;
  return *this;
}
Text& Text::add(const char* characters) { return add(characters, std::strlen(characters)); }
void append(Text& out, const char* value) { out.add(value ? value : "(null)"); }
void append(Text& out, char value) { out.add(&value, 1); }
void append(Text& out, bool value) { out.add(value ? "1" : "0"); }
void append(Text& out, const void* value) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", value);
  out.add(text);
}
void append_number(Text& out, double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", value);
  out.add(text);
}
void append_number(Text& out, long long value) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld", value);
  out.add(text);
}
void append_number(Text& out, unsigned long long value) {
  char text[40];
  std::snprintf(text, sizeof text, "%llu", value);
  out.add(text);
}
std::string to_string(const Text& text) { return std::string(text.c_str(), text.size()); }
void print_warning(const char* text) { std::fprintf(stderr, "Warning: %s\n", text); }

void fail(Fault kind, const char* message) {
  switch (kind) {
    case Fault::ValueError: throw ValueError(message);
    case Fault::TypeError: throw TypeError(message);
    case Fault::IndexError: throw IndexError(message);
    case Fault::NotImplementedError: throw NotImplementedError(message);
    default: throw Error(message);
  }
}
void raise_from_torch(const char* call) {
  const char* what = torch_exception_get_what_without_backtrace ? torch_exception_get_what_without_backtrace() : nullptr;
  throw Error(what && *what ? std::string(what) : std::string(call) + " failed");
}

// --- names -----------------------------------------------------------------------------------------

const char* toString(ScalarType type) {
  switch (type) {
#define KEVIN_X(T, Name, python) case ScalarType::Name: return #Name;
    KEVIN_SCALAR_TYPES(KEVIN_X)
#undef KEVIN_X
    default: return "another type";
  }
}
const char* python_name(ScalarType type) {
  switch (type) {
#define KEVIN_X(T, Name, python) case ScalarType::Name: return python;
    KEVIN_SCALAR_TYPES(KEVIN_X)
#undef KEVIN_X
    case ScalarType::ComplexFloat: return "complex64";
    case ScalarType::ComplexDouble: return "complex128";
    case ScalarType::Float8_e5m2: return "float8_e5m2";
    case ScalarType::Float8_e4m3fn: return "float8_e4m3fn";
    default: return "float32";
  }
}
void append(Text& out, DeviceType type) {
  out.add(type == DeviceType::CUDA ? "cuda" : type == DeviceType::CPU ? "cpu" : "meta");
}
Device::Device(const char* text) : type_(DeviceType::CPU), index_(-1) {
  const std::string whole(text), kind = whole.substr(0, whole.find(':'));
  if (kind == "cuda") type_ = DeviceType::CUDA;
  else if (kind != "cpu") throw Error("Invalid device string: '" + whole + "'");
  if (kind.size() < whole.size()) index_ = static_cast<DeviceIndex>(std::stoi(whole.substr(kind.size() + 1)));
}
void append(Text& out, const Device& device) {
  append(out, device.type());
  if (device.has_index()) {
    append(out, ':');
    append(out, static_cast<int>(device.index()));
  }
}
std::string Device::str() const { return kevin_torch::str(*this); }
void append(Text& out, const Tensor& tensor) {
  out.add("Tensor");
  if (tensor.defined()) append(out, tensor.sizes());
}

// --- tensors ---------------------------------------------------------------------------------------

int64_t Tensor::wrapped(int64_t d, int64_t rank) {
  const int64_t range = rank ? rank : 1;
  if (d < -range || d >= range)
    fail_with(Fault::IndexError, "Dimension out of range (expected to be in range of [", -range, ", ", range - 1, "], but got ", d, ")");
  return d < 0 ? d + range : d;
}

AtenTensorHandle Tensor::retained(AtenTensorHandle handle) {
  AtenTensorHandle out = nullptr;
  if (handle) KEVIN_CALL(aoti_torch_new_tensor_handle, handle, &out);
  return out;
}

bool Tensor::has_strides(const std::vector<int64_t>& wanted) const {
  for (int64_t i = 0; i < dim(); ++i) if (size(i) != 1 && stride(i) != wanted[i]) return false;
  return true;
}

void Tensor::check_type(ScalarType wanted) const {
  if (__builtin_expect(scalar_type() != wanted, 0))
    fail_with(Fault::Error, "expected scalar type ", wanted, " but found ", scalar_type());
}
void Tensor::check_dim(size_t wanted) const {
  if (dim() != static_cast<int64_t>(wanted))
    fail_with(Fault::Error, "TensorAccessor expected ", wanted, " dims but tensor has ", dim());
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  return format == MemoryFormat::Contiguous ? get<bool>(aoti_torch_is_contiguous) : has_strides(dense_strides(sizes(), format));
}

Tensor Tensor::as_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<int64_t> offset) const {
  AtenTensorHandle out = nullptr;
  KEVIN_CALL(aoti_torch__reinterpret_tensor, checked(), static_cast<int64_t>(sizes.size()), sizes.data(),
             strides.data(), offset ? *offset - storage_offset() : 0, &out);
  return steal(out);
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  return is_contiguous(format) ? *this : copied(dense_strides(sizes(), format), scalar_type(), device());
}

std::vector<int64_t> Tensor::dense_strides(IntArrayRef sizes, MemoryFormat format) {
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

bool Tensor::is_non_overlapping_and_dense() const {
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

Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  const Device where = options.device();
  AtenTensorHandle out = nullptr;
  KEVIN_CALL(aoti_torch_empty_strided, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
             static_cast<int32_t>(options.dtype().toScalarType()), static_cast<int32_t>(where.type()),
             where.index(), &out);
  return Tensor::steal(out);
}
Tensor empty(IntArrayRef sizes, const TensorOptions& options, std::optional<MemoryFormat> format) {
  for (int64_t size : sizes)
    if (size < 0) fail_with(Fault::Error, "Trying to create tensor with negative dimension ", size, ": ", sizes);
  return empty_strided(sizes, Tensor::dense_strides(sizes, format.value_or(MemoryFormat::Contiguous)), options);
}
Tensor Tensor::copied(const std::vector<int64_t>& strides, ScalarType type, Device where, bool non_blocking) const {
  Tensor out = empty_strided(sizes(), strides, TensorOptions(type).device(where));
  out.copy_(*this, non_blocking);
  return out;
}
// Strides of a copy: the tensor's own when it is dense, row-major otherwise (torch's preserve_format).
std::vector<int64_t> preserved_strides(const Tensor& self) {
  return self.is_non_overlapping_and_dense() ? self.strides().vec() : Tensor::dense_strides(self.sizes());
}
Tensor Tensor::clone(std::optional<MemoryFormat> format) const {
  const bool preserve = !format || *format == MemoryFormat::Preserve;
  return copied(preserve ? preserved_strides(*this) : dense_strides(sizes(), *format), scalar_type(), device());
}
Tensor Tensor::to(Device where, ScalarType type, bool non_blocking, bool copy) const {
  const bool here = where.type() == device_type() && (!where.has_index() || where.is_cpu() || where.index() == get_device());
  if (here && type == scalar_type() && !copy) return *this;
  return copied(preserved_strides(*this), type, where, non_blocking);
}
Scalar Tensor::item() const {
  if (scalar_type() == kBool) return item<bool>();
  return is_floating_point() ? Scalar(item<double>()) : Scalar(item<int64_t>());
}

// The strides that give `shape` over the same memory, or nothing when only a copy can (ATen/TensorUtils.cpp).
std::optional<std::vector<int64_t>> view_strides(IntArrayRef sizes, IntArrayRef strides, IntArrayRef shape, int64_t numel) {
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
std::vector<int64_t> inferred_shape(IntArrayRef shape, int64_t numel) {
  std::vector<int64_t> out = shape.vec();
  int64_t known = 1, open = -1;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == -1 && open < 0) open = static_cast<int64_t>(i);
    else known *= out[i];
  }
  if (open >= 0 && known > 0 && numel % known == 0) out[open] = numel / known;
  else if (open >= 0 || known != numel) fail_with(Fault::Error, "shape '", shape, "' is invalid for input of size ", numel);
  return out;
}
Tensor Tensor::view(IntArrayRef shape) const {
  const auto wanted = inferred_shape(shape, numel());
  const auto steps = view_strides(sizes(), strides(), wanted, numel());
  if (!steps)
    fail(Fault::Error, "view size is not compatible with input tensor's size and stride (at least one dimension spans "
                 "across two contiguous subspaces). Use .reshape(...) instead.");
  return as_strided(wanted, *steps);
}
Tensor Tensor::reshape(IntArrayRef shape) const {
  const auto wanted = inferred_shape(shape, numel());
  const auto steps = view_strides(sizes(), strides(), wanted, numel());
  return steps ? as_strided(wanted, *steps) : copied(dense_strides(sizes()), scalar_type(), device()).view(wanted);
}
Tensor Tensor::flatten(int64_t start, int64_t end) const {
  const int64_t rank = dim();
  if (rank == 0) return reshape({1});
  start = wrapped(start, rank);
  end = wrapped(end, rank);
  if (start > end) fail(Fault::Error, "flatten() has invalid args: start_dim cannot come after end_dim");
  std::vector<int64_t> shape;
  int64_t joined = 1;
  for (int64_t d = 0; d < rank; ++d) {
    if (d < start || d > end) { shape.push_back(size(d)); continue; }
    joined *= size(d);
    if (d == end) shape.push_back(joined);
  }
  return reshape(shape);
}
Tensor Tensor::squeeze() const {
  std::vector<int64_t> shape, steps;
  for (int64_t d = 0; d < dim(); ++d)
    if (size(d) != 1) { shape.push_back(size(d)); steps.push_back(stride(d)); }
  return as_strided(shape, steps);
}
Tensor Tensor::squeeze(int64_t d) const {
  d = wrapped(d, dim());
  if (dim() == 0 || size(d) != 1) return *this;
  auto shape = sizes().vec(), steps = strides().vec();
  shape.erase(shape.begin() + d);
  steps.erase(steps.begin() + d);
  return as_strided(shape, steps);
}
Tensor Tensor::unsqueeze(int64_t d) const {
  d = wrapped(d, dim() + 1);
  auto shape = sizes().vec(), steps = strides().vec();
  const int64_t step = d < dim() ? shape[d] * steps[d] : 1;
  shape.insert(shape.begin() + d, 1);
  steps.insert(steps.begin() + d, step);
  return as_strided(shape, steps);
}
Tensor Tensor::transpose(int64_t a, int64_t b) const {
  if (dim() == 0) return *this;
  auto shape = sizes().vec(), steps = strides().vec();
  a = wrapped(a, dim());
  b = wrapped(b, dim());
  std::swap(shape[a], shape[b]);
  std::swap(steps[a], steps[b]);
  return as_strided(shape, steps);
}
Tensor Tensor::permute(IntArrayRef order) const {
  if (static_cast<int64_t>(order.size()) != dim())
    fail_with(Fault::Error, "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
                     "desired ordering of dimensions i.e. input.dim() = ", dim(), " is not equal to len(dims) = ", order.size());
  std::vector<int64_t> shape, steps;
  std::vector<bool> seen(order.size());
  for (int64_t d : order) {
    d = wrapped(d, dim());
    if (seen[d]) fail(Fault::Error, "permute(): duplicate dims are not allowed.");
    seen[d] = true;
    shape.push_back(size(d));
    steps.push_back(stride(d));
  }
  return as_strided(shape, steps);
}
Tensor Tensor::expand(IntArrayRef wanted, bool) const {
  const int64_t lead = static_cast<int64_t>(wanted.size()) - dim();
  if (lead < 0) fail_with(Fault::Error, "expand: the number of sizes provided (", wanted.size(), ") must be greater or equal to the number of dimensions in the tensor (", dim(), ")");
  std::vector<int64_t> shape, steps;
  for (int64_t i = 0; i < static_cast<int64_t>(wanted.size()); ++i) {
    const int64_t have = i < lead ? 1 : size(i - lead), want = wanted[i] == -1 && i >= lead ? have : wanted[i];
    if (have != want && have != 1)
      fail_with(Fault::Error, "The expanded size of the tensor (", want, ") must match the existing size (", have, ") at non-singleton dimension ", i);
    shape.push_back(want);
    steps.push_back(i < lead || (have == 1 && want != 1) ? 0 : stride(i - lead));
  }
  return as_strided(shape, steps);
}
Tensor Tensor::narrow(int64_t d, int64_t start, int64_t length) const {
  d = wrapped(d, dim());
  if (start < 0) start += size(d);
  if (dim() == 0 || start < 0 || length < 0 || start + length > size(d))
    fail_with(Fault::Error, "start (", start, ") + length (", length, ") exceeds dimension size (", dim() ? size(d) : 0, ").");
  auto shape = sizes().vec();
  shape[d] = length;
  return as_strided(shape, strides(), storage_offset() + start * stride(d));
}
Tensor Tensor::select(int64_t d, int64_t index) const {
  if (dim() == 0) fail(Fault::IndexError, "select() cannot be applied to a 0-dim tensor.");
  d = wrapped(d, dim());
  if (index < -size(d) || index >= size(d))
    fail_with(Fault::IndexError, "index ", index, " is out of bounds for dimension ", d, " with size ", size(d));
  auto shape = sizes().vec(), steps = strides().vec();
  const int64_t offset = storage_offset() + (index < 0 ? index + size(d) : index) * stride(d);
  shape.erase(shape.begin() + d);
  steps.erase(steps.begin() + d);
  return as_strided(shape, steps, offset);
}
Tensor Tensor::slice(int64_t d, std::optional<int64_t> from, std::optional<int64_t> to, int64_t step) const {
  d = wrapped(d, dim());
  if (dim() == 0 || step <= 0) fail(Fault::Error, "slice step must be positive");
  const int64_t length = size(d);
  auto clamped = [length](int64_t i) { i = i < 0 ? i + length : i; return i < 0 ? int64_t{0} : i > length ? length : i; };
  const int64_t start = clamped(from.value_or(0)), end = clamped(to.value_or(length));
  auto shape = sizes().vec(), steps = strides().vec();
  shape[d] = end > start ? (end - start + step - 1) / step : 0;
  steps[d] *= step;
  return as_strided(shape, steps, storage_offset() + start * stride(d));
}

// --- factories -----------------------------------------------------------------------------------

Tensor zeros(IntArrayRef sizes, const TensorOptions& options) {
  Tensor out = empty(sizes, options);
  out.zero_();
  return out;
}
Tensor empty_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> format) {
  const bool preserve = !format || *format == MemoryFormat::Preserve;
  const auto strides = preserve ? preserved_strides(self) : Tensor::dense_strides(self.sizes(), *format);
  return empty_strided(self.sizes(), strides, self.options().merge_in(options));
}
Tensor zeros_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> format) {
  Tensor out = empty_like(self, options, format);
  out.zero_();
  return out;
}
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  AtenTensorHandle out = nullptr;
  KEVIN_CALL(aoti_torch_create_tensor_from_blob, data, static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
             0, static_cast<int32_t>(options.dtype().toScalarType()), static_cast<int32_t>(options.device().type()),
             options.device().index(), &out);
  return Tensor::steal(out);
}
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options) {
  return from_blob(data, sizes, Tensor::dense_strides(sizes), options);
}


Tensor& Tensor::fill_(const Scalar& value) {
  const double number = value.toDouble();
  if (value.isIntegral(false) && static_cast<int64_t>(number) != value.toLong())
    fail(Fault::Error, "fill_ with an integer of more than 53 bits is not supported here");
  if (is_cuda()) KEVIN_CALL(aoti_torch_cuda_fill__Scalar, checked(), number);
  else KEVIN_CALL(aoti_torch_cpu_fill__Scalar, checked(), number);
  return *this;
}
Tensor Tensor::new_empty(IntArrayRef sizes, const TensorOptions& given) const { return kevin_torch::empty(sizes, options().merge_in(given)); }
Tensor Tensor::new_zeros(IntArrayRef sizes, const TensorOptions& given) const { return kevin_torch::zeros(sizes, options().merge_in(given)); }
Tensor full(IntArrayRef sizes, const Scalar& value, const TensorOptions& given) {
  const ScalarType inferred = value.isFloatingPoint() ? kFloat : value.isBoolean() ? kBool : kLong;
  Tensor out = empty(sizes, given.has_dtype() ? given : given.dtype(inferred));
  out.fill_(value);
  return out;
}
Tensor ones(IntArrayRef sizes, const TensorOptions& options) { return full(sizes, 1, options.dtype(options.dtype())); }
Tensor full_like(const Tensor& self, const Scalar& value, const TensorOptions& options) {
  Tensor out = empty_like(self, options);
  out.fill_(value);
  return out;
}
Tensor ones_like(const Tensor& self, const TensorOptions& options) { return full_like(self, 1, options); }
Tensor scalar_tensor(const Scalar& value, const TensorOptions& options) { return full({}, value, options.dtype(options.dtype())); }
}  // namespace kevin_torch
