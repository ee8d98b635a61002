// Streams, device guards and launch checks. The stream is torch's current one.
#pragma once
#include <cuda_runtime_api.h>

#include <kevin/tensor.h>

typedef struct cublasContext* cublasHandle_t;

namespace kevin_torch {
namespace cuda {

inline void check(cudaError_t status) {
  if (__builtin_expect(status != cudaSuccess, 0)) {
    cudaGetLastError();  // so that the next check does not see this one
    fail_with(Fault::Error, "CUDA error: ", cudaGetErrorString(status));
  }
}
inline DeviceIndex current_device() {
  int index = 0;
  check(cudaGetDevice(&index));
  return static_cast<DeviceIndex>(index);
}
inline DeviceIndex device_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count));
  return static_cast<DeviceIndex>(count);
}
inline void set_device(DeviceIndex index) { check(cudaSetDevice(index)); }
inline void device_synchronize() { check(cudaDeviceSynchronize()); }

class CUDAStream {
 public:
  CUDAStream(cudaStream_t stream, DeviceIndex index) : stream_(stream), index_(index) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return index_; }
  Device device() const { return Device(DeviceType::CUDA, index_); }
  void synchronize() const { check(cudaStreamSynchronize(stream_)); }
  bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }

 private:
  cudaStream_t stream_;
  DeviceIndex index_;
};
inline CUDAStream getCurrentCUDAStream(DeviceIndex index = -1) {
  if (index == -1) index = current_device();
  void* stream = nullptr;
  if (!aoti_torch_get_current_cuda_stream) fail(Fault::Error, "this torch has no CUDA");
  KEVIN_CALL(aoti_torch_get_current_cuda_stream, index, &stream);
  return CUDAStream(static_cast<cudaStream_t>(stream), index);
}
inline CUDAStream getDefaultCUDAStream(DeviceIndex index = -1) {
  return CUDAStream(nullptr, index == -1 ? current_device() : index);
}
inline cublasHandle_t getCurrentCUDABlasHandle() {
  void* handle = nullptr;
  if (!torch_get_current_cuda_blas_handle) fail(Fault::Error, "this torch has no CUDA");
  KEVIN_CALL(torch_get_current_cuda_blas_handle, &handle);
  return static_cast<cublasHandle_t>(handle);
}

class CUDAGuard {  // the device for this scope
 public:
  explicit CUDAGuard(DeviceIndex index) : before_(cuda::current_device()), now_(before_) { set_index(index); }
  explicit CUDAGuard(Device device) : CUDAGuard(device.index()) {}
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  ~CUDAGuard() { if (now_ != before_) cudaSetDevice(before_); }
  void set_index(DeviceIndex index) {
    if (index < 0 || index == now_) return;
    cuda::set_device(index);
    now_ = index;
  }
  void set_device(Device device) { set_index(device.index()); }
  Device original_device() const { return Device(DeviceType::CUDA, before_); }
  Device current_device() const { return Device(DeviceType::CUDA, now_); }

 private:
  DeviceIndex before_, now_;
};
class OptionalCUDAGuard {
 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) { if (device) guard_.emplace(*device); }
  explicit OptionalCUDAGuard(DeviceIndex index) { guard_.emplace(index); }
  void set_index(DeviceIndex index) { if (guard_) guard_->set_index(index); else guard_.emplace(index); }

 private:
  std::optional<CUDAGuard> guard_;
};
inline const cudaDeviceProp* getDeviceProperties(DeviceIndex index) {
  static std::vector<cudaDeviceProp*> known(64, nullptr);
  cudaDeviceProp*& found = known.at(static_cast<size_t>(index));
  if (!found) {
    found = new cudaDeviceProp;  // kept for the life of the process
    check(cudaGetDeviceProperties(found, index));
  }
  return found;
}
inline const cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(current_device()); }
inline int warp_size() { return 32; }
inline bool is_available() { int count = 0; return cudaGetDeviceCount(&count) == cudaSuccess && count > 0; }
}  // namespace cuda

inline std::optional<Device> device_of(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor.device()) : nullopt;
}
using OptionalDeviceGuard = cuda::OptionalCUDAGuard;
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device) { if (device.is_cuda()) guard_.emplace(device); }

 private:
  std::optional<cuda::CUDAGuard> guard_;
};
}  // namespace kevin_torch

#define C10_CUDA_CHECK(call) ::kevin_torch::cuda::check(call)
#define AT_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#define TORCH_CUDA_CHECK(call) C10_CUDA_CHECK(call)
#define C10_CUDA_ERROR_HANDLED(call) (call)
#define C10_CUDA_CHECK_WARN(call) ((void)(call))
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
