// What describes a tensor: scalar types, devices, layouts, options, sizes. Names and numbers are c10's.
#pragma once
#include <initializer_list>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <kevin/abi.h>
#include <kevin/half.h>

namespace kevin_torch {

using std::nullopt;
using std::nullopt_t;
template <class T> using optional = std::optional<T>;
template <class T> constexpr auto make_optional(T&& value) { return std::make_optional(std::forward<T>(value)); }

// --- scalar types --------------------------------------------------------------------------------

enum class ScalarType : int8_t {
  Byte = 0, Char = 1, Short = 2, Int = 3, Long = 4, Half = 5, Float = 6, Double = 7, ComplexHalf = 8,
  ComplexFloat = 9, ComplexDouble = 10, Bool = 11, BFloat16 = 15, Float8_e5m2 = 23, Float8_e4m3fn = 24,
  Float8_e5m2fnuz = 25, Float8_e4m3fnuz = 26, UInt16 = 27, UInt32 = 28, UInt64 = 29, Undefined = 45
};
using Dtype = ScalarType;

// C++ type, enumerator, torch's name in Python
#define KEVIN_SCALAR_TYPES(X)                                                                        \
  X(uint8_t, Byte, "uint8") X(int8_t, Char, "int8") X(int16_t, Short, "int16") X(int, Int, "int32")  \
  X(int64_t, Long, "int64") X(::kevin_torch::Half, Half, "float16") X(float, Float, "float32")       \
  X(double, Double, "float64") X(bool, Bool, "bool") X(::kevin_torch::BFloat16, BFloat16, "bfloat16") \
  X(uint16_t, UInt16, "uint16") X(uint32_t, UInt32, "uint32") X(uint64_t, UInt64, "uint64")

namespace impl {
template <ScalarType N> struct ScalarTypeToCPPType;
#define KEVIN_X(T, Name, python) template <> struct ScalarTypeToCPPType<ScalarType::Name> { using type = T; };
KEVIN_SCALAR_TYPES(KEVIN_X)
#undef KEVIN_X
template <ScalarType N> using ScalarTypeToCPPTypeT = typename ScalarTypeToCPPType<N>::type;
}  // namespace impl

template <class T> struct CppTypeToScalarType;
#define KEVIN_X(T, Name, python) \
  template <> struct CppTypeToScalarType<T> { static constexpr ScalarType value = ScalarType::Name; };
KEVIN_SCALAR_TYPES(KEVIN_X)
#undef KEVIN_X
template <> struct CppTypeToScalarType<long long> { static constexpr ScalarType value = ScalarType::Long; };
template <class T> constexpr ScalarType type_of() {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_same_v<Plain, ::__half>) return ScalarType::Half;
  else if constexpr (std::is_same_v<Plain, ::__nv_bfloat16>) return ScalarType::BFloat16;
  else return CppTypeToScalarType<Plain>::value;
}

const char* toString(ScalarType type);
const char* python_name(ScalarType type);
inline void append(Text& out, ScalarType type) { out.add(toString(type)); }
inline size_t elementSize(ScalarType type) { return aoti_torch_dtype_element_size(static_cast<int32_t>(type)); }
constexpr bool isFloatingType(ScalarType t) {
  return t == ScalarType::Half || t == ScalarType::Float || t == ScalarType::Double || t == ScalarType::BFloat16;
}
constexpr bool isIntegralType(ScalarType t, bool with_bool = false) {
  return (static_cast<int>(t) <= 4) || (t == ScalarType::UInt16 || t == ScalarType::UInt32 || t == ScalarType::UInt64) ||
         (with_bool && t == ScalarType::Bool);
}
constexpr bool isReducedFloatingType(ScalarType t) { return t == ScalarType::Half || t == ScalarType::BFloat16; }

constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = ScalarType::Byte, kChar = ScalarType::Char,
                     kInt8 = ScalarType::Char, kShort = ScalarType::Short, kInt16 = ScalarType::Short,
                     kInt = ScalarType::Int, kInt32 = ScalarType::Int, kLong = ScalarType::Long,
                     kInt64 = ScalarType::Long, kHalf = ScalarType::Half, kFloat16 = ScalarType::Half,
                     kFloat = ScalarType::Float, kFloat32 = ScalarType::Float, kDouble = ScalarType::Double,
                     kFloat64 = ScalarType::Double, kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16,
                     kUInt16 = ScalarType::UInt16, kUInt32 = ScalarType::UInt32, kUInt64 = ScalarType::UInt64,
                     kFloat8_e4m3fn = ScalarType::Float8_e4m3fn, kFloat8_e5m2 = ScalarType::Float8_e5m2;

// What `tensor.dtype()` gives; compares with and turns into a ScalarType.
class TypeMeta {
 public:
  constexpr TypeMeta(ScalarType type) : type_(type) {}
  constexpr operator ScalarType() const { return type_; }
  constexpr ScalarType toScalarType() const { return type_; }
  const char* name() const { return python_name(type_); }
  size_t itemsize() const { return elementSize(type_); }
  friend constexpr bool operator==(TypeMeta a, TypeMeta b) { return a.type_ == b.type_; }
  friend constexpr bool operator!=(TypeMeta a, TypeMeta b) { return a.type_ != b.type_; }
  friend constexpr bool operator==(TypeMeta a, ScalarType b) { return a.type_ == b; }
  friend constexpr bool operator!=(TypeMeta a, ScalarType b) { return a.type_ != b; }
  friend constexpr bool operator==(ScalarType a, TypeMeta b) { return a == b.type_; }
  friend constexpr bool operator!=(ScalarType a, TypeMeta b) { return a != b.type_; }

 private:
  ScalarType type_;
};
inline void append(Text& out, TypeMeta type) { out.add(type.name()); }
inline ScalarType typeMetaToScalarType(TypeMeta type) { return type; }

template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T, bool on_cuda> struct AccumulateType {
  using type = std::conditional_t<
      std::is_integral_v<T>, std::conditional_t<std::is_same_v<T, bool>, bool, int64_t>,
      std::conditional_t<std::is_same_v<T, double> || (std::is_same_v<T, float> && !on_cuda), double, float>>;
};
template <class T, bool on_cuda> using acc_type = typename AccumulateType<T, on_cuda>::type;

// --- devices, layouts ----------------------------------------------------------------------------

enum class DeviceType : int8_t { CPU = 0, CUDA = 1, Meta = 14 };
constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kMeta = DeviceType::Meta;
using DeviceIndex = int8_t;
enum class Layout : int8_t { Strided = 0 };
constexpr Layout kStrided = Layout::Strided;
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

void append(Text& out, DeviceType type);

class Device {
 public:
  constexpr Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const char* text);  // "cuda:0"
  template <class S, class = decltype(std::declval<const S&>().c_str())> Device(const S& text) : Device(text.c_str()) {}
  constexpr DeviceType type() const { return type_; }
  constexpr DeviceIndex index() const { return index_; }
  constexpr bool has_index() const { return index_ != -1; }
  constexpr bool is_cuda() const { return type_ == DeviceType::CUDA; }
  constexpr bool is_cpu() const { return type_ == DeviceType::CPU; }
  constexpr bool operator==(const Device& other) const { return type_ == other.type_ && index_ == other.index_; }
  constexpr bool operator!=(const Device& other) const { return !(*this == other); }
  std::string str() const;

 private:
  DeviceType type_;
  DeviceIndex index_;
};
void append(Text& out, const Device& device);

class TypeProperties {  // what the old `tensor.type()` gives
 public:
  constexpr TypeProperties(ScalarType scalar, DeviceType device) : scalar_(scalar), device_(device) {}
  constexpr operator ScalarType() const { return scalar_; }
  constexpr ScalarType scalarType() const { return scalar_; }
  constexpr DeviceType device_type() const { return device_; }
  constexpr bool is_cuda() const { return device_ == DeviceType::CUDA; }
  friend constexpr bool operator==(TypeProperties a, TypeProperties b) { return a.scalar_ == b.scalar_ && a.device_ == b.device_; }
  friend constexpr bool operator!=(TypeProperties a, TypeProperties b) { return !(a == b); }

 private:
  ScalarType scalar_;
  DeviceType device_;
};

// --- arrays --------------------------------------------------------------------------------------

template <class T>
class ArrayRef {  // borrowed, like c10's
 public:
  using value_type = T;
  using iterator = const T*;
  using const_iterator = const T*;
  constexpr ArrayRef() : data_(nullptr), size_(0) {}
  constexpr ArrayRef(const T& one) : data_(&one), size_(1) {}
  constexpr ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  constexpr ArrayRef(const T* begin, const T* end) : data_(begin), size_(static_cast<size_t>(end - begin)) {}
  ArrayRef(const std::vector<T>& values) : data_(values.data()), size_(values.size()) {}
  template <class Array, class = decltype(std::tuple_size<Array>::value)>
  constexpr ArrayRef(const Array& values) : data_(values.data()), size_(values.size()) {}
  template <size_t N> constexpr ArrayRef(const T (&values)[N]) : data_(values), size_(N) {}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
  constexpr ArrayRef(const std::initializer_list<T>& values) : data_(values.begin()), size_(values.size()) {}
#pragma GCC diagnostic pop
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](size_t i) const { return data_[i]; }
  const T& at(size_t i) const {
    if (i >= size_) fail_with(Fault::Error, "ArrayRef: invalid index ", i, " with length ", size_);
    return data_[i];
  }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  constexpr ArrayRef slice(size_t start, size_t count) const { return {data_ + start, count}; }
  constexpr ArrayRef slice(size_t start) const { return {data_ + start, size_ - start}; }
  std::vector<T> vec() const { return {begin(), end()}; }
  bool equals(ArrayRef other) const {
    if (size_ != other.size_) return false;
    for (size_t i = 0; i < size_; ++i) if (!(data_[i] == other.data_[i])) return false;
    return true;
  }

 private:
  const T* data_;
  size_t size_;
};
template <class T> bool operator==(ArrayRef<T> a, ArrayRef<T> b) { return a.equals(b); }
template <class T> bool operator!=(ArrayRef<T> a, ArrayRef<T> b) { return !a.equals(b); }
template <class T> bool operator==(ArrayRef<T> a, const std::vector<T>& b) { return a.equals(b); }
template <class T> bool operator!=(ArrayRef<T> a, const std::vector<T>& b) { return !a.equals(b); }
template <class T> bool operator==(const std::vector<T>& a, ArrayRef<T> b) { return b.equals(a); }
template <class T> void append(Text& out, ArrayRef<T> values) {
  append(out, '[');
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) append(out, ", ");
    append(out, values[i]);
  }
  append(out, ']');
}
template <class T> void append(Text& out, const std::vector<T>& values) { append(out, ArrayRef<T>(values)); }
using IntArrayRef = ArrayRef<int64_t>;
using IntList = IntArrayRef;

// --- options -------------------------------------------------------------------------------------

class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : dtype_(type) {}
  TensorOptions(TypeMeta type) : dtype_(type.toScalarType()) {}
  TensorOptions(Device device) : device_(device) {}
  TensorOptions(DeviceType type) : device_(Device(type)) {}
  TensorOptions(Layout) {}
  [[nodiscard]] TensorOptions dtype(std::optional<ScalarType> type) const { auto o = *this; o.dtype_ = type; return o; }
  [[nodiscard]] TensorOptions dtype(ScalarType type) const { return dtype(std::optional<ScalarType>(type)); }
  [[nodiscard]] TensorOptions dtype(TypeMeta type) const { return dtype(type.toScalarType()); }
  template <class T> [[nodiscard]] TensorOptions dtype() const { return dtype(std::optional<ScalarType>(type_of<T>())); }
  [[nodiscard]] TensorOptions device(std::optional<Device> device) const { auto o = *this; o.device_ = device; return o; }
  [[nodiscard]] TensorOptions device(const Device& where) const { return device(std::optional<Device>(where)); }
  [[nodiscard]] TensorOptions device(DeviceType type, DeviceIndex index = -1) const { return device(Device(type, index)); }
  [[nodiscard]] TensorOptions device_index(DeviceIndex index) const { return device(Device(DeviceType::CUDA, index)); }
  [[nodiscard]] TensorOptions layout(Layout) const { return *this; }
  [[nodiscard]] TensorOptions requires_grad(bool) const { return *this; }
  [[nodiscard]] TensorOptions memory_format(std::optional<MemoryFormat>) const { return *this; }
  [[nodiscard]] TensorOptions pinned_memory(bool value) const { auto o = *this; o.pinned_ = value; return o; }
  TypeMeta dtype() const { return dtype_.value_or(kFloat); }
  Device device() const { return device_.value_or(Device(kCPU)); }
  std::optional<ScalarType> dtype_opt() const { return dtype_; }
  std::optional<Device> device_opt() const { return device_; }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_device() const { return device_.has_value(); }
  bool is_pinned() const { return pinned_; }
  // What the other one says wins.
  TensorOptions merge_in(const TensorOptions& other) const {
    auto o = *this;
    if (other.dtype_) o.dtype_ = other.dtype_;
    if (other.device_) o.device_ = other.device_;
    return o;
  }

 private:
  std::optional<ScalarType> dtype_;
  std::optional<Device> device_;
  bool pinned_ = false;
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
inline TensorOptions dtype(TypeMeta type) { return TensorOptions(type); }
template <class T> TensorOptions dtype() { return TensorOptions(type_of<T>()); }
inline TensorOptions device(Device device) { return TensorOptions(device); }
inline TensorOptions device(DeviceType type) { return TensorOptions(type); }
inline TensorOptions layout(Layout) { return {}; }
inline TensorOptions requires_grad(bool = true) { return {}; }

// --- numbers -------------------------------------------------------------------------------------

class Scalar {  // an int64, a double or a bool, as Python sees it
 public:
  Scalar() : Scalar(int64_t{0}) {}
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Scalar(T value) {
    if constexpr (std::is_same_v<T, bool>) { kind_ = Kind::Bool; integer_ = value; }
    else if constexpr (std::is_integral_v<T>) { kind_ = Kind::Int; integer_ = static_cast<int64_t>(value); }
    else { kind_ = Kind::Double; real_ = static_cast<double>(value); }
  }
  Scalar(Half value) : Scalar(float(value)) {}
  Scalar(BFloat16 value) : Scalar(float(value)) {}
  bool isFloatingPoint() const { return kind_ == Kind::Double; }
  bool isBoolean() const { return kind_ == Kind::Bool; }
  bool isIntegral(bool with_bool) const { return kind_ == Kind::Int || (with_bool && isBoolean()); }
  template <class T> T to() const { return isFloatingPoint() ? static_cast<T>(real_) : static_cast<T>(integer_); }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int64_t toLong() const { return to<int64_t>(); }
  int toInt() const { return to<int>(); }
  bool toBool() const { return to<bool>(); }

 private:
  enum class Kind { Int, Double, Bool } kind_;
  int64_t integer_ = 0;
  double real_ = 0;
};
inline void append(Text& out, const Scalar& s) {
  if (s.isFloatingPoint()) append(out, s.toDouble()); else append(out, s.toLong());
}
}  // namespace kevin_torch
