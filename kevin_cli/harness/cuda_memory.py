"""Device memory that another process can map: CUDA's virtual memory calls, through ctypes on libcuda.

    create:  cuMemCreate -> cuMemExportToShareableHandle (a descriptor) -> reserve, map, set access
    open:    cuMemImportFromShareableHandle (the descriptor) -> reserve, map, set access

Every return code is checked and named. Structures and numbers are those of `cuda.h` (CUDA 12 and 13; the
calls exist since 10.2). The mapping ends when the last tensor over it goes; the driver ends it with the
process in any case. Memory from `cuMemCreate` is not cleared: the first to write decides what is in it.

Not promised: that a read-only mapping can be had everywhere. Where the driver refuses one the mapping is
writable, and the reference notices a changed input by comparing it with its own copy.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint64, c_ushort, c_void_p
from typing import Any

import torch

_PINNED, _DEVICE, _POSIX_FD, _GRANULARITY_MINIMUM = 1, 1, 1, 0
_READ, _READ_WRITE = 1, 3
_OUT_OF_MEMORY = 2


class CudaError(RuntimeError):
    """A driver call failed; the text names the call and the driver's own word for the error."""


class _Location(Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class _AllocationFlags(Structure):
    _fields_ = (
        ("compression_type", c_ubyte),
        ("gpu_direct_rdma_capable", c_ubyte),
        ("usage", c_ushort),
        ("reserved", c_ubyte * 4),
    )


class _AllocationProperties(Structure):
    _fields_ = (
        ("type", c_int),
        ("requested_handle_types", c_int),
        ("location", _Location),
        ("win32_handle_metadata", c_void_p),
        ("flags", _AllocationFlags),
    )


class _AccessDescription(Structure):
    _fields_ = (("location", _Location), ("flags", c_int))


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuMemGetAllocationGranularity": (POINTER(c_size_t), POINTER(_AllocationProperties), c_int),
    "cuMemCreate": (POINTER(c_uint64), c_size_t, POINTER(_AllocationProperties), c_uint64),
    "cuMemRelease": (c_uint64,),
    "cuMemExportToShareableHandle": (c_void_p, c_uint64, c_int, c_uint64),
    "cuMemImportFromShareableHandle": (POINTER(c_uint64), c_void_p, c_int),
    "cuMemAddressReserve": (POINTER(c_uint64), c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemAddressFree": (c_uint64, c_size_t),
    "cuMemMap": (c_uint64, c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemUnmap": (c_uint64, c_size_t),
    "cuMemSetAccess": (c_uint64, c_size_t, POINTER(_AccessDescription), c_size_t),
}


class _Driver:
    """libcuda with typed arguments; `call` raises on anything but success."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, c_int

    def code(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._library, name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        code = self.code(name, *arguments)
        if code == _OUT_OF_MEMORY:
            raise MemoryError(f"{name}: out of memory on the device")
        if code:
            raise CudaError(f"{name}: {self._error_name(code)}")

    def _error_name(self, code: int) -> str:
        text = c_char_p()
        self.code("cuGetErrorName", code, byref(text))
        return text.value.decode() if text.value else f"error {code}"


class _Mapping:
    """A mapped range that torch can wrap without a copy; unmapped when nothing refers to it."""

    def __init__(self, driver: _Driver, address: int, mapped_bytes: int, num_bytes: int) -> None:
        self._driver, self._address, self._mapped_bytes = driver, address, mapped_bytes
        self.__cuda_array_interface__ = {
            "shape": (num_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }

    def __del__(self) -> None:
        self._driver.code("cuMemUnmap", self._address, self._mapped_bytes)
        self._driver.code("cuMemAddressFree", self._address, self._mapped_bytes)


def create(num_bytes: int, device_index: int) -> tuple[int, torch.Tensor]:
    """New device memory: its descriptor and a uint8 tensor over it. Raises `MemoryError`, `CudaError`."""
    driver, properties = _enter(device_index)
    size = _rounded(driver, properties, num_bytes)
    handle, fd = c_uint64(), c_int(-1)
    driver.call("cuMemCreate", byref(handle), size, byref(properties), 0)
    try:
        driver.call("cuMemExportToShareableHandle", ctypes.addressof(fd), handle, _POSIX_FD, 0)
        return fd.value, _map(driver, handle, size, num_bytes, device_index, _READ_WRITE)
    finally:
        driver.call("cuMemRelease", handle)


def open_shared(fd: int, num_bytes: int, device_index: int, *, writable: bool) -> torch.Tensor:
    """A uint8 tensor over memory that another process created, `num_bytes` as it was created with."""
    driver, properties = _enter(device_index)
    size = _rounded(driver, properties, num_bytes)
    handle = c_uint64()
    driver.call("cuMemImportFromShareableHandle", byref(handle), c_void_p(fd), _POSIX_FD)
    try:
        return _map(driver, handle, size, num_bytes, device_index, _READ_WRITE if writable else _READ)
    finally:
        driver.call("cuMemRelease", handle)


def _enter(device_index: int) -> tuple[_Driver, _AllocationProperties]:
    """Make torch's context current in this thread, so that the mapping belongs to it."""
    torch.cuda.init()
    torch.cuda.set_device(device_index)
    torch.zeros(1, device=f"cuda:{device_index}")
    properties = _AllocationProperties(
        type=_PINNED, requested_handle_types=_POSIX_FD, location=_Location(_DEVICE, device_index)
    )
    return _Driver(), properties


def _rounded(driver: _Driver, properties: _AllocationProperties, num_bytes: int) -> int:
    granularity = c_size_t()
    driver.call("cuMemGetAllocationGranularity", byref(granularity), byref(properties), _GRANULARITY_MINIMUM)
    return -(-num_bytes // granularity.value) * granularity.value


def _map(driver: _Driver, handle: c_uint64, size: int, num_bytes: int, device_index: int, access: int) -> torch.Tensor:
    address = c_uint64()
    driver.call("cuMemAddressReserve", byref(address), size, 0, 0, 0)
    driver.call("cuMemMap", address, size, 0, handle, 0)
    mapping = _Mapping(driver, int(address.value), size, num_bytes)
    _set_access(driver, address, size, device_index, access)
    return torch.as_tensor(mapping, device=f"cuda:{device_index}")


def _set_access(driver: _Driver, address: c_uint64, size: int, device_index: int, access: int) -> None:
    description = _AccessDescription(_Location(_DEVICE, device_index), access)
    code = driver.code("cuMemSetAccess", address, size, byref(description), 1)
    if code == 0:
        return
    description.flags = _READ_WRITE
    driver.call("cuMemSetAccess", address, size, byref(description), 1)
