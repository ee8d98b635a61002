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

inline std::string text_of(PyObject* object) {
  Owned text(PyObject_Str(object));
  ptrdiff_t length = 0;
  const char* data = text ? PyUnicode_AsUTF8AndSize(text.get(), &length) : nullptr;
  if (!data) { PyErr_Clear(); return "?"; }
  return std::string(data, static_cast<size_t>(length));
}

// A Python exception becomes a C++ one; its text is kept.
[[noreturn]] inline void raise_from_python() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  Owned a(type), b(value), c(trace);
  throw Error(value ? text_of(value) : std::string("a Python call failed"));
}
inline PyObject* checked(PyObject* object) {
  if (!object) raise_from_python();
  return object;
}
// `module.name`, looked up once and kept.
inline PyObject* found(const char* module, const char* name) {
  Owned owner(checked(PyImport_ImportModule(module)));
  return checked(PyObject_GetAttrString(owner.get(), name));
}
inline bool is_tensor(PyObject* object) {
  static PyObject* const type = found("torch", "Tensor");
  return PyObject_IsInstance(object, type) == 1;
}
inline PyObject* none() { Py_IncRef(&_Py_NoneStruct); return &_Py_NoneStruct; }

// --- to Python: a new reference -------------------------------------------------------------------

inline PyObject* wrap(Tensor value) {
  if (!value.defined()) return none();
  // Takes a reference of its own, whatever its name says; ours goes with `value`. (The leak test holds it.)
  static PyObject* const share = found("torch._C._aoti", "alloc_tensor_by_stealing_from_void_ptr");
  Owned capsule(checked(PyCapsule_New(value.handle(), nullptr, nullptr)));
  return checked(PyObject_CallFunctionObjArgs(share, capsule.get(), nullptr));
}
inline PyObject* wrap(bool value) { return PyBool_FromLong(value); }
template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
PyObject* wrap(T value) { return checked(PyLong_FromLongLong(static_cast<long long>(value))); }
template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
PyObject* wrap(T value) { return checked(PyFloat_FromDouble(static_cast<double>(value))); }
inline PyObject* wrap(const Scalar& s) {
  return s.isFloatingPoint() ? wrap(s.toDouble()) : s.isBoolean() ? wrap(s.toBool()) : wrap(s.toLong());
}
inline PyObject* wrap(const std::string& text) {
  return checked(PyUnicode_FromStringAndSize(text.data(), static_cast<ptrdiff_t>(text.size())));
}
inline PyObject* wrap(const char* text) { return wrap(std::string(text)); }
inline PyObject* wrap(ScalarType type) { return found("torch", python_name(type)); }
inline PyObject* wrap(TypeMeta type) { return wrap(type.toScalarType()); }
inline PyObject* wrap(const Device& device) { return wrap(device.str()); }
inline PyObject* wrap(MemoryFormat format) {
  static const char* const names[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
  return found("torch", names[static_cast<int>(format)]);
}
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

template <class T, class = void> struct From;

template <> struct From<Tensor> {
  static constexpr const char* name = "torch.Tensor";
  static std::optional<Tensor> get(PyObject* object) {
    if (!is_tensor(object)) return nullopt;
    static PyObject* const give = found("torch._C._aoti", "unsafe_alloc_void_ptr_from_tensor");
    Owned capsule(checked(PyObject_CallFunctionObjArgs(give, object, nullptr)));
    return Tensor::steal(static_cast<AtenTensorHandle>(PyCapsule_GetPointer(capsule.get(), nullptr)));
  }
};
template <> struct From<bool> {
  static constexpr const char* name = "bool";
  static std::optional<bool> get(PyObject* object) {
    static PyObject* const yes = PyBool_FromLong(1);
    static PyObject* const no = PyBool_FromLong(0);
    if (object == yes || object == no) return object == yes;
    return nullopt;
  }
};
template <class T> struct From<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static constexpr const char* name = "int";
  static std::optional<T> get(PyObject* object) {
    Owned index(PyNumber_Index(object));
    if (!index) { PyErr_Clear(); return nullopt; }
    const long long value = PyLong_AsLongLong(index.get());
    if ((value == -1 && PyErr_Occurred()) || (value < 0 && std::is_unsigned_v<T>) || static_cast<long long>(static_cast<T>(value)) != value) {
      PyErr_Clear();
      return nullopt;
    }
    return static_cast<T>(value);
  }
};
template <class T> struct From<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static constexpr const char* name = "float";
  static std::optional<T> get(PyObject* object) {
    const double value = PyFloat_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) { PyErr_Clear(); return nullopt; }
    return static_cast<T>(value);
  }
};
template <> struct From<Scalar> {
  static constexpr const char* name = "Number";
  static std::optional<Scalar> get(PyObject* object) {
    if (auto truth = From<bool>::get(object)) return Scalar(*truth);
    if (auto integer = From<int64_t>::get(object)) return Scalar(*integer);
    if (auto real = From<double>::get(object)) return Scalar(*real);
    return nullopt;
  }
};
template <> struct From<std::string> {
  static constexpr const char* name = "str";
  static std::optional<std::string> get(PyObject* object) {
    ptrdiff_t length = 0;
    const char* data = PyUnicode_AsUTF8AndSize(object, &length);
    if (!data) { PyErr_Clear(); return nullopt; }
    return std::string(data, static_cast<size_t>(length));
  }
};
template <> struct From<ScalarType> {
  static constexpr const char* name = "torch.dtype";
  static std::optional<ScalarType> get(PyObject* object) {
#define KEVIN_X(T, Name, python) \
    { static PyObject* const dtype = found("torch", python); if (object == dtype) return ScalarType::Name; }
    KEVIN_SCALAR_TYPES(KEVIN_X)
#undef KEVIN_X
    return nullopt;
  }
};
template <> struct From<Device> {
  static constexpr const char* name = "torch.device";
  static std::optional<Device> get(PyObject* object) {
    static PyObject* const type = found("torch", "device");
    if (PyObject_IsInstance(object, type) != 1) return nullopt;
    return Device(text_of(object));
  }
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
    ptrdiff_t length = 0;
    if (!PySequence_Check(object) || is_tensor(object) || PyUnicode_AsUTF8AndSize(object, &length)) return nullopt;
    PyErr_Clear();
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

template <class T> T value_of(PyObject* object) {
  auto value = From<T>::get(object);
  if (!value) raise<Error>(std::string("torch returned something else than ") + From<T>::name);
  return std::move(*value);
}

// --- calls of torch's operators --------------------------------------------------------------------
// Through Python, not through aoti_torch_call_dispatcher: the stable call passes no Scalar (so no
// `alpha`, no `x * 2`), looks the operator up by name at every call and, before torch 2.13, loses the
// message of an error. The way here costs about the same and has none of that.

inline PyObject* operator_named(const char* name) {
  for (const char* module : {"torch._C._VariableFunctions", "torch._C._nn", "torch.ops.aten"}) {
    const std::string path = module;
    Owned owner(checked(PyImport_ImportModule("torch")));
    for (size_t start = 6; start < path.size() && owner;) {
      const size_t dot = path.find('.', start);
      owner = Owned(PyObject_GetAttrString(owner.get(), path.substr(start, dot - start).c_str()));
      start = dot == std::string::npos ? path.size() : dot + 1;
    }
    PyObject* const function = owner ? PyObject_GetAttrString(owner.get(), name) : nullptr;
    if (function) return function;
    PyErr_Clear();
  }
  raise<Error>(std::string("torch has no operator ") + name);
}
struct Keyword {  // a new reference, or nothing
  const char* name;
  PyObject* value;
};
template <class T> Keyword keyword(const char* name, const std::optional<T>& value) {
  return {name, value ? wrap(*value) : nullptr};
}
template <class T> Keyword keyword(const char* name, const T& value) { return {name, wrap(value)}; }

struct Operator {
  PyObject* function;
  template <class R = Tensor, class... A>
  R operator()(std::initializer_list<Keyword> keywords, const A&... arguments) const {
    Owned positional(checked(PyTuple_New(sizeof...(A))));
    ptrdiff_t i = 0;
    (PyTuple_SetItem(positional.get(), i++, wrap(arguments)), ...);
    Owned named(checked(PyDict_New()));
    for (const Keyword& k : keywords) {
      Owned value(k.value);
      if (value) PyDict_SetItemString(named.get(), k.name, value.get());
    }
    Owned result(checked(PyObject_Call(function, positional.get(), named.get())));
    return value_of<R>(result.get());
  }
};
inline void check_lock() {
  if (!PyGILState_Check())
    raise<Error>("a torch operator was called from another thread; only data pointers may be used there");
}
}  // namespace python
}  // namespace kevin_torch

// The operator of that name, looked up once at each place that uses it.
#define KEVIN_FIND(name)                                                                       \
  (::kevin_torch::python::check_lock(), [] {                                                   \
    static PyObject* const function = ::kevin_torch::python::operator_named(name);             \
    return ::kevin_torch::python::Operator{function};                                          \
  }())
