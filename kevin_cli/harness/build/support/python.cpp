// The bodies of kevin/python.h. Compiled once for a machine (see support.py).
#include <kevin/errors.h>
#include <kevin/python.h>

namespace kevin_torch {
namespace python {

static std::string text_of(PyObject* object) {
  Owned text(PyObject_Str(object));
  ptrdiff_t length = 0;
  const char* data = text ? PyUnicode_AsUTF8AndSize(text.get(), &length) : nullptr;
  if (!data) { PyErr_Clear(); return "?"; }
  return std::string(data, static_cast<size_t>(length));
}

void append(Text& out, PyObject* object) { kevin_torch::append(out, text_of(object)); }
void raise_from_python() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  Owned a(type), b(value), c(trace);
  throw Error(value ? text_of(value) : std::string("a Python call failed"));
}
// `module.name`, looked up once and kept.
PyObject* found(const char* module, const char* name) {
  Owned owner(checked(PyImport_ImportModule(module)));
  return checked(PyObject_GetAttrString(owner.get(), name));
}
bool is_tensor(PyObject* object) {
  static PyObject* const type = found("torch", "Tensor");
  return PyObject_IsInstance(object, type) == 1;
}

PyObject* wrap(Tensor value) {
  if (!value.defined()) return none();
  // Takes a reference of its own, whatever its name says; ours goes with `value`. (The leak test holds it.)
  static PyObject* const share = found("torch._C._aoti", "alloc_tensor_by_stealing_from_void_ptr");
  Owned capsule(checked(PyCapsule_New(value.handle(), nullptr, nullptr)));
  return checked(PyObject_CallFunctionObjArgs(share, capsule.get(), nullptr));
}
PyObject* wrap(const Scalar& s) {
  return s.isFloatingPoint() ? wrap(s.toDouble()) : s.isBoolean() ? wrap(s.toBool()) : wrap(s.toLong());
}
PyObject* wrap(const std::string& text) {
  return checked(PyUnicode_FromStringAndSize(text.data(), static_cast<ptrdiff_t>(text.size())));
}
PyObject* wrap(const char* text) { return wrap(std::string(text)); }
PyObject* wrap(ScalarType type) { return found("torch", python_name(type)); }
PyObject* wrap(const Device& device) { return wrap(device.str()); }
PyObject* wrap(MemoryFormat format) {
  static const char* const names[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
  return found("torch", names[static_cast<int>(format)]);
}

bool take_integer(PyObject* object, long long* value) {
  Owned index(PyNumber_Index(object));
  *value = index ? PyLong_AsLongLong(index.get()) : -1;
  if (index && !(*value == -1 && PyErr_Occurred())) return true;
  PyErr_Clear();
  return false;
}
bool take_real(PyObject* object, double* value) {
  *value = PyFloat_AsDouble(object);
  if (!(*value == -1.0 && PyErr_Occurred())) return true;
  PyErr_Clear();
  return false;
}
bool is_list(PyObject* object) {
  ptrdiff_t length = 0;
  if (!PySequence_Check(object) || is_tensor(object) || PyUnicode_AsUTF8AndSize(object, &length)) return false;
  PyErr_Clear();
  return true;
}
std::optional<Tensor> From<Tensor>::get(PyObject* object) {
  if (!is_tensor(object)) return nullopt;
  static PyObject* const give = found("torch._C._aoti", "unsafe_alloc_void_ptr_from_tensor");
  Owned capsule(checked(PyObject_CallFunctionObjArgs(give, object, nullptr)));
  return Tensor::steal(static_cast<AtenTensorHandle>(PyCapsule_GetPointer(capsule.get(), nullptr)));
}
std::optional<bool> From<bool>::get(PyObject* object) {
  static PyObject* const yes = PyBool_FromLong(1);
  static PyObject* const no = PyBool_FromLong(0);
  if (object == yes || object == no) return object == yes;
  return nullopt;
}
std::optional<Scalar> From<Scalar>::get(PyObject* object) {
  if (auto truth = From<bool>::get(object)) return Scalar(*truth);
  if (auto integer = From<int64_t>::get(object)) return Scalar(*integer);
  if (auto real = From<double>::get(object)) return Scalar(*real);
  return nullopt;
}
std::optional<std::string> From<std::string>::get(PyObject* object) {
  ptrdiff_t length = 0;
  const char* data = PyUnicode_AsUTF8AndSize(object, &length);
  if (!data) { PyErr_Clear(); return nullopt; }
  return std::string(data, static_cast<size_t>(length));
}
std::optional<ScalarType> From<ScalarType>::get(PyObject* object) {
#define KEVIN_X(T, Name, python) \
  { static PyObject* const dtype = found("torch", python); if (object == dtype) return ScalarType::Name; }
  KEVIN_SCALAR_TYPES(KEVIN_X)
#undef KEVIN_X
  return nullopt;
}
std::optional<Device> From<Device>::get(PyObject* object) {
  static PyObject* const type = found("torch", "device");
  if (PyObject_IsInstance(object, type) != 1) return nullopt;
  return Device(text_of(object));
}
}  // namespace python
}  // namespace kevin_torch
