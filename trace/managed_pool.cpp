// Managed memory for PyTorch's allocator (torch.cuda.memory.CUDAPluggableAllocator):
// python/umbench/torch/managed.py loads this library and sets the policy. PyTorch requests segments of 2 MiB
// and more and splits them itself.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <mutex>
#include <string_view>

namespace {

#define UM_EXPORT extern "C" __attribute__((visibility("default")))

// Counts the bytes that PyTorch's allocator holds against the limit.
struct pool {
  std::mutex guard;
  std::string_view policy = "none";
  std::size_t max_bytes = 0, used = 0, peak = 0;
};

pool& global_pool() {
  static pool one;
  return one;
}

constexpr std::string_view policies[] = {"none", "prefetch", "advise_host", "advise_device", "read_mostly"};

bool try_reserve(std::size_t bytes) {
  const std::lock_guard lock(global_pool().guard);
  if (bytes > global_pool().max_bytes - global_pool().used) return false;
  global_pool().used += bytes;
  if (global_pool().used > global_pool().peak) global_pool().peak = global_pool().used;
  return true;
}

void release_reserved(std::size_t bytes) {
  const std::lock_guard lock(global_pool().guard);
  global_pool().used -= bytes;
}

cudaError_t follow_policy(void* at, std::size_t bytes, int device, cudaStream_t stream) {
  const std::string_view policy = global_pool().policy;
  const cudaMemLocation gpu{cudaMemLocationTypeDevice, device}, host{cudaMemLocationTypeHost, 0};
  if (policy == "prefetch") return cudaMemPrefetchAsync(at, bytes, gpu, 0, stream);
  if (policy == "advise_device") return cudaMemAdvise(at, bytes, cudaMemAdviseSetPreferredLocation, gpu);
  if (policy == "read_mostly") return cudaMemAdvise(at, bytes, cudaMemAdviseSetReadMostly, gpu);
  if (policy != "advise_host") return cudaSuccess;
  const cudaError_t error = cudaMemAdvise(at, bytes, cudaMemAdviseSetPreferredLocation, host);
  return error != cudaSuccess ? error : cudaMemAdvise(at, bytes, cudaMemAdviseSetAccessedBy, gpu);
}

}  // namespace

// Must be called before the first allocation. `max_bytes` limits the bytes allocated at a time; beyond it
// PyTorch reports out of memory. Returns 0, or 1 if `policy` is unknown.
UM_EXPORT int um_pool_configure(const char* policy, std::size_t max_bytes) {
  for (const std::string_view known : policies) {
    if (known != policy) continue;
    const std::lock_guard lock(global_pool().guard);
    global_pool().policy = known;
    global_pool().max_bytes = max_bytes;
    return 0;
  }
  return 1;
}

UM_EXPORT std::size_t um_pool_used() {
  const std::lock_guard lock(global_pool().guard);
  return global_pool().used;
}

UM_EXPORT std::size_t um_pool_peak() {
  const std::lock_guard lock(global_pool().guard);
  return global_pool().peak;
}

// Returns nullptr if the limit is reached, or CUDA refuses.
UM_EXPORT void* um_pool_alloc(std::size_t bytes, int device, cudaStream_t stream) {
  if (!try_reserve(bytes)) return nullptr;
  int before = 0;
  void* at = nullptr;
  static_cast<void>(cudaGetDevice(&before));
  static_cast<void>(cudaSetDevice(device));
  cudaError_t error = cudaMallocManaged(&at, bytes, cudaMemAttachGlobal);
  if (error == cudaSuccess) {
    error = follow_policy(at, bytes, device, stream);
    if (error != cudaSuccess) {
      static_cast<void>(cudaFree(at));
      at = nullptr;
    }
  } else {
    at = nullptr;
  }
  static_cast<void>(cudaGetLastError());  // clears the error, which PyTorch would take for one of its own
  static_cast<void>(cudaSetDevice(before));
  if (at == nullptr) release_reserved(bytes);
  return at;
}

UM_EXPORT void um_pool_free(void* at, std::size_t bytes, int, cudaStream_t) {
  if (at == nullptr) return;
  static_cast<void>(cudaFree(at));
  release_reserved(bytes);
}
