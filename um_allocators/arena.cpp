#include "um_allocators/arena.hpp"

#include <cuda_runtime_api.h>

#include <string>

#include "um_allocators/check.hpp"

namespace um {
namespace {

void free_device_memory(void* data) noexcept {
  static_cast<void>(cudaFree(data));
}
void free_pinned_memory(void* data) noexcept {
  static_cast<void>(cudaFreeHost(data));
}

byte_count free_device_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free;
}

std::string request_text(byte_count bytes, const char* kind) {
  return "cannot allocate " + to_text(bytes) + " of " + kind + " memory";
}

// Reports out of memory with figures, other errors as check() does.
void check_allocation(cudaError_t status, const std::string& message) {
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw out_of_memory(message);
  }
  check(status);
}

}  // namespace

arena device_arena(byte_count bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw out_of_memory(request_text(bytes, "device") + ": " + to_text(free_device_bytes()) + " are free");
  }
  check(status);
  return {data, bytes, &free_device_memory};
}

arena pinned_arena(byte_count bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  check_allocation(cudaMallocHost(&data, bytes), request_text(bytes, "pinned host"));
  return {data, bytes, &free_pinned_memory};
}

arena managed_arena(byte_count bytes, managed_limit limit) {
  if (bytes == 0) return {};
  const byte_count free = free_device_bytes();
  if (limit == managed_limit::guarded && bytes > guarded_share(free)) {
    throw out_of_memory(request_text(bytes, "managed") + ": the limit is 80 % of the " + to_text(free) +
                        " of device memory that are free, " + to_text(guarded_share(free)));
  }
  void* data = nullptr;
  check_allocation(cudaMallocManaged(&data, bytes), request_text(bytes, "managed"));
  return {data, bytes, &free_device_memory};
}

}  // namespace um
