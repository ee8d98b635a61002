// Launches on stream 0 go to torch's current stream. Linked with --wrap into whatever has kernels (see support.py).
//
// `kernel<<<grid, block>>>` names the legacy default stream. With torch's current stream elsewhere (a side
// stream, a graph being captured) such a kernel would run out of order; here it runs where torch's own
// would. Where the current stream is the default one, nothing changes. cudaStreamLegacy (1) stays as it is.
#include <kevin/abi.h>

extern "C" {
struct KevinDim3 {  // dim3, without the toolkit's headers
  unsigned x, y, z;
};
int __real_cudaLaunchKernel(const void*, KevinDim3, KevinDim3, void**, size_t, void*) __attribute__((weak));
int __real___cudaLaunchKernel(void*, KevinDim3, KevinDim3, void**, size_t, void*) __attribute__((weak));

static void* kevin_stream(void* stream) {
  void* current = nullptr;
  if (stream || !aoti_torch_get_current_cuda_stream) return stream;
  return aoti_torch_get_current_cuda_stream(-1, &current) == 0 ? current : stream;
}
int __wrap_cudaLaunchKernel(const void* kernel, KevinDim3 grid, KevinDim3 block, void** args, size_t shared, void* stream) {
  return __real_cudaLaunchKernel(kernel, grid, block, args, shared, kevin_stream(stream));
}
int __wrap___cudaLaunchKernel(void* kernel, KevinDim3 grid, KevinDim3 block, void** args, size_t shared, void* stream) {
  return __real___cudaLaunchKernel(kernel, grid, block, args, shared, kevin_stream(stream));  // CUDA 13's name
}
}
