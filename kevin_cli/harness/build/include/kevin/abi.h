// The C functions that everything here stands on: libtorch's stable interface and Python's stable ABI.
//
// Declared by hand, because torch's own header costs 5 s of parsing and Python.h 0.4 s. The signatures
// are those of torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h (torch 2.11 to
// 2.13) and of Python's limited API (3.11 on). What only some of those versions have is weak.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

// --- libtorch ------------------------------------------------------------------------------------
struct AtenTensorOpaque;
using AtenTensorHandle = AtenTensorOpaque*;
using AOTITorchError = int32_t;  // 0: success

AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle);
AOTITorchError aoti_torch_new_tensor_handle(AtenTensorHandle, AtenTensorHandle*);  // a new owning reference
AOTITorchError aoti_torch_get_data_ptr(AtenTensorHandle, void**);
AOTITorchError aoti_torch_get_dim(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_get_numel(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_get_sizes(AtenTensorHandle, int64_t**);    // borrowed
AOTITorchError aoti_torch_get_strides(AtenTensorHandle, int64_t**);  // borrowed
AOTITorchError aoti_torch_get_dtype(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_device_type(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_device_index(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_layout(AtenTensorHandle, int32_t*);
AOTITorchError aoti_torch_get_storage_offset(AtenTensorHandle, int64_t*);
AOTITorchError aoti_torch_is_contiguous(AtenTensorHandle, bool*);
AOTITorchError aoti_torch_is_defined(AtenTensorHandle, bool*);
AOTITorchError aoti_torch__reinterpret_tensor(
    AtenTensorHandle, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t offset_increment,
    AtenTensorHandle*);
AOTITorchError aoti_torch_empty_strided(
    int64_t ndim, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device_type,
    int32_t device_index, AtenTensorHandle*);
AOTITorchError aoti_torch_create_tensor_from_blob(
    void* data, int64_t ndim, const int64_t* sizes, const int64_t* strides, int64_t storage_offset, int32_t dtype,
    int32_t device_type, int32_t device_index, AtenTensorHandle*);
AOTITorchError aoti_torch_copy_(AtenTensorHandle self, AtenTensorHandle source, int32_t non_blocking);
AOTITorchError aoti_torch_zero_(AtenTensorHandle);
size_t aoti_torch_dtype_element_size(int32_t dtype);
bool aoti_torch_grad_mode_is_enabled();
void aoti_torch_grad_mode_set_enabled(bool);
AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream) __attribute__((weak));
AOTITorchError torch_get_current_cuda_blas_handle(void** handle) __attribute__((weak));
AOTITorchError torch_parallel_for(
    int64_t begin, int64_t end, int64_t grain_size, void (*body)(int64_t, int64_t, void*), void* context);
AOTITorchError torch_get_thread_idx(uint32_t*);
AOTITorchError torch_get_num_threads(uint32_t*);
const char* torch_exception_get_what_without_backtrace() __attribute__((weak));  // from torch 2.13 on

// --- Python --------------------------------------------------------------------------------------
struct _object;
typedef struct _object PyObject;
struct PyMethodDef;
extern PyObject _Py_NoneStruct;
extern PyObject* PyExc_RuntimeError;
extern PyObject* PyExc_TypeError;
extern PyObject* PyExc_ValueError;
extern PyObject* PyExc_IndexError;
extern PyObject* PyExc_MemoryError;
extern PyObject* PyExc_OverflowError;
extern PyObject* PyExc_NotImplementedError;
void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
int PyGILState_Check();
void PyErr_SetString(PyObject*, const char*);
PyObject* PyErr_Occurred();
void PyErr_Clear();
void PyErr_Fetch(PyObject**, PyObject**, PyObject**);
void PyErr_Restore(PyObject*, PyObject*, PyObject*);
PyObject* PyObject_Str(PyObject*);
PyObject* PyObject_Type(PyObject*);
int PyObject_IsTrue(PyObject*);
int PyObject_IsInstance(PyObject*, PyObject*);
PyObject* PyObject_GetAttrString(PyObject*, const char*);
int PyObject_SetAttrString(PyObject*, const char*, PyObject*);
PyObject* PyObject_Call(PyObject*, PyObject* args, PyObject* keywords);
PyObject* PyObject_CallFunctionObjArgs(PyObject*, ...);
PyObject* PyImport_ImportModule(const char*);
PyObject* PyModule_New(const char*);
PyObject* PyCFunction_NewEx(struct PyMethodDef*, PyObject* self, PyObject* module);
PyObject* PyCapsule_New(void*, const char* name, void (*destructor)(PyObject*));
void* PyCapsule_GetPointer(PyObject*, const char* name);
PyObject* PyBool_FromLong(long);
PyObject* PyLong_FromLongLong(long long);
long long PyLong_AsLongLong(PyObject*);
PyObject* PyNumber_Index(PyObject*);
PyObject* PyFloat_FromDouble(double);
double PyFloat_AsDouble(PyObject*);
PyObject* PyUnicode_FromStringAndSize(const char*, ptrdiff_t);
const char* PyUnicode_AsUTF8AndSize(PyObject*, ptrdiff_t*);
PyObject* PyTuple_New(ptrdiff_t);
ptrdiff_t PyTuple_Size(PyObject*);
PyObject* PyTuple_GetItem(PyObject*, ptrdiff_t);  // borrowed
int PyTuple_SetItem(PyObject*, ptrdiff_t, PyObject*);  // steals
PyObject* PyList_New(ptrdiff_t);
int PyList_SetItem(PyObject*, ptrdiff_t, PyObject*);  // steals
PyObject* PyDict_New();
int PyDict_SetItemString(PyObject*, const char*, PyObject*);
PyObject* PySequence_Tuple(PyObject*);
int PySequence_Check(PyObject*);
int PyUnicode_Compare(PyObject*, PyObject*);
int PyUnicode_CompareWithASCIIString(PyObject*, const char*);
}
