// Values to Python and back, without Python.h and without pybind11.
//
// Tensors cross as torch's own capsules (`torch._C._aoti`, 0.2 µs each way); everything else through
// Python's stable ABI. Every function here needs the interpreter lock, which a bound function holds.
#pragma once
#include <array>

#include <kevin/factories.h>

namespace kevin_torch {
namespace python {

class Owned {  // one counted reference
 public:
  explicit Owned(PyObject* object = nullptr) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept { std::swap(object_, other.object_); return *this; }
  ~Owned() { if (object_) Py_DecRef(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

void append(Text& out, PyObject* object);      // str(object)
[[noreturn]] void raise_from_python();          // the Python exception becomes a C++ one; its text is kept
inline PyObject* checked(PyObject* object) {
  if (!object) raise_from_python();
  return object;
}
PyObject* found(const char* module, const char* name);  // `module.name`: a new reference
bool is_tensor(PyObject* object);
inline PyObject* none() { Py_IncRef(&_Py_NoneStruct); return &_Py_NoneStruct; }

// --- to Python: a new reference -------------------------------------------------------------------

PyObject* wrap(Tensor value);
inline PyObject* wrap(bool value) { return PyBool_FromLong(value); }
template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
PyObject* wrap(T value) { return checked(PyLong_FromLongLong(static_cast<long long>(value))); }
template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
PyObject* wrap(T value) { return checked(PyFloat_FromDouble(static_cast<double>(value))); }
PyObject* wrap(const Scalar& s);
PyObject* wrap(const std::string& text);
PyObject* wrap(const char* text);
PyObject* wrap(ScalarType type);
inline PyObject* wrap(TypeMeta type) { return wrap(type.toScalarType()); }
PyObject* wrap(const Device& device);
PyObject* wrap(MemoryFormat format);
inline PyObject* wrap(std::nullopt_t) { return none(); }
inline PyObject* wrap(PyObject* given) { return given ? given : none(); }
template <class T> PyObject* wrap(const std::optional<T>& value) { return value ? wrap(*value) : none(); }
template <class T> PyObject* wrap(ArrayRef<T> values) {
  Owned list(checked(PyList_New(static_cast<ptrdiff_t>(values.size()))));
  for (size_t i = 0; i < values.size(); ++i) PyList_SetItem(list.get(), static_cast<ptrdiff_t>(i), wrap(values[i]));
  return list.release();
}
template <class T> PyObject* wrap(const std::vector<T>& values) {
  Owned list(checked(PyList_New(static_cast<ptrdiff_t>(values.size()))));
  for (size_t i = 0; i < values.size(); ++i)
    PyList_SetItem(list.get(), static_cast<ptrdiff_t>(i), wrap(static_cast<const T&>(values[i])));
  return list.release();
}
template <class... T> PyObject* wrap(const std::tuple<T...>& values) {
  Owned out(checked(PyTuple_New(sizeof...(T))));
  ptrdiff_t i = 0;
  std::apply([&](const auto&... v) { (PyTuple_SetItem(out.get(), i++, wrap(v)), ...); }, values);
  return out.release();
}
template <class A, class B> PyObject* wrap(const std::pair<A, B>& values) {
  return wrap(std::tuple<A, B>(values.first, values.second));
}
template <class T, size_t N> PyObject* wrap(const std::array<T, N>& values) { return wrap(ArrayRef<T>(values.data(), N)); }

// --- from Python: empty when the object is of another kind -----------------------------------------

bool take_integer(PyObject* object, long long* value);
bool take_real(PyObject* object, double* value);
bool is_list(PyObject* object);  // any sequence that is neither a tensor nor a string
template <class T, class = void> struct From;

template <> struct From<Tensor> {
  static constexpr const char* name = "torch.Tensor";
  static std::optional<Tensor> get(PyObject* object);
};
template <> struct From<bool> {
  static constexpr const char* name = "bool";
  static std::optional<bool> get(PyObject* object);
};
template <class T> struct From<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static constexpr const char* name = "int";
  static std::optional<T> get(PyObject* object) {
    long long value = 0;
    if (!take_integer(object, &value) || (value < 0 && std::is_unsigned_v<T>)) return nullopt;
    if (static_cast<long long>(static_cast<T>(value)) != value) return nullopt;
    return static_cast<T>(value);
  }
};
template <class T> struct From<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr const char* name = "float";
  static std::optional<T> get(PyObject* object) {
    double value = 0;
    if (!take_real(object, &value)) return nullopt;
    return static_cast<T>(value);
  }
};
template <> struct From<Scalar> {
  static constexpr const char* name = "Number";
  static std::optional<Scalar> get(PyObject* object);
};
template <> struct From<std::string> {
  static constexpr const char* name = "str";
  static std::optional<std::string> get(PyObject* object);
};
template <> struct From<ScalarType> {
  static constexpr const char* name = "torch.dtype";
  static std::optional<ScalarType> get(PyObject* object);
};
template <> struct From<Device> {
  static constexpr const char* name = "torch.device";
  static std::optional<Device> get(PyObject* object);
};
template <class T> struct From<std::optional<T>> {
  static constexpr const char* name = From<T>::name;
  static std::optional<std::optional<T>> get(PyObject* object) {
    if (object == &_Py_NoneStruct) return std::optional<T>();
    auto value = From<T>::get(object);
    if (!value) return nullopt;
    return std::optional<T>(std::move(*value));
  }
};
template <class T> struct From<std::vector<T>> {
  static constexpr const char* name = "list";
  static std::optional<std::vector<T>> get(PyObject* object) {
    if (!is_list(object)) return nullopt;
    Owned items(checked(PySequence_Tuple(object)));
    std::vector<T> out;
    for (ptrdiff_t i = 0, n = PyTuple_Size(items.get()); i < n; ++i) {
      auto value = From<T>::get(PyTuple_GetItem(items.get(), i));
      if (!value) return nullopt;
      out.push_back(std::move(*value));
    }
    return out;
  }
};
template <class... T> struct From<std::tuple<T...>> {
  static constexpr const char* name = "tuple";
  static std::optional<std::tuple<T...>> get(PyObject* object) {
    Owned items(PySequence_Tuple(object));
    if (!items || PyTuple_Size(items.get()) != sizeof...(T)) { PyErr_Clear(); return nullopt; }
    return all(items.get(), std::index_sequence_for<T...>());
  }
  template <size_t... I> static std::optional<std::tuple<T...>> all(PyObject* items, std::index_sequence<I...>) {
    std::tuple<std::optional<T>...> got(From<T>::get(PyTuple_GetItem(items, I))...);
    if (!(std::get<I>(got).has_value() && ...)) return nullopt;
    return std::tuple<T...>(std::move(*std::get<I>(got))...);
  }
};

}  // namespace python
}  // namespace kevin_torch
