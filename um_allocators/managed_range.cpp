#include "um_allocators/managed_range.hpp"

#include <array>
#include <string>
#include <vector>

#include "um_allocators/check.hpp"

namespace um {
namespace {

struct advice_calls {
  cudaMemoryAdvise give, withdraw;
};
const advice_calls& calls_for(advice hint) {
  static constexpr std::array calls{
      advice_calls{cudaMemAdviseSetReadMostly, cudaMemAdviseUnsetReadMostly},
      advice_calls{cudaMemAdviseSetPreferredLocation,
                   cudaMemAdviseUnsetPreferredLocation},  // preferred location: the device
      advice_calls{cudaMemAdviseSetPreferredLocation,
                   cudaMemAdviseUnsetPreferredLocation},  // preferred location: the host
      advice_calls{cudaMemAdviseSetAccessedBy, cudaMemAdviseUnsetAccessedBy}};
  static_assert(calls.size() == enum_names<advice>.size());
  return calls.at(static_cast<std::size_t>(hint));
}

// Throws unsupported if the driver is older than the runtime and lacks the call.
[[maybe_unused]] void check_supported(cudaError_t status, const char* action) {
  if (status != cudaErrorNotSupported) return check(status);
  static_cast<void>(cudaGetLastError());
  throw unsupported(std::string("the driver cannot ") + action);
}

#if CUDART_VERSION >= 13000

cudaMemLocation device_location(int device) {
  cudaMemLocation place{};
  place.type = cudaMemLocationTypeDevice;
  place.id = device;
  return place;
}
cudaMemLocation host_location() {
  cudaMemLocation place{};
  place.type = cudaMemLocationTypeHost;
  return place;
}

cudaError_t runtime_prefetch(managed_range memory, cudaMemLocation to, cudaStream_t stream) {
  return cudaMemPrefetchAsync(memory.data, memory.bytes, to, 0, stream);
}

void prefetch_batch(std::span<const managed_range> ranges, cudaMemLocation to, cudaStream_t stream) {
  std::vector<void*> data;
  std::vector<std::size_t> bytes;
  for (const managed_range& r : ranges) {
    data.push_back(r.data);
    bytes.push_back(r.bytes);
  }
  std::size_t first = 0;
  check_supported(
      cudaMemPrefetchBatchAsync(data.data(), bytes.data(), data.size(), &to, &first, 1, 0, stream),
      "prefetch in batches");
}

#else

int device_location(int device) {
  return device;
}
int host_location() {
  return cudaCpuDeviceId;
}

cudaError_t runtime_prefetch(managed_range memory, int to, cudaStream_t stream) {
  return cudaMemPrefetchAsync(memory.data, memory.bytes, to, stream);
}

void prefetch_batch(std::span<const managed_range>, int, cudaStream_t) {
  throw unsupported("prefetch in batches needs CUDA 13 or later");
}

#endif

}  // namespace

void require_demand_paging(int device) {
  if (device_attribute(cudaDevAttrConcurrentManagedAccess, device) == 0) {
    throw unsupported("device " + std::to_string(device) +
                      " does not page managed memory on demand (concurrentManagedAccess is 0)");
  }
}

void advise_range(managed_range memory, advice hint, int device) {
  const auto place = hint == advice::preferred_host ? host_location() : device_location(device);
  check(cudaMemAdvise(memory.data, memory.bytes, calls_for(hint).give, place));
}

void withdraw_advice(managed_range memory, advice hint, int device) {
  const auto place = hint == advice::preferred_host ? host_location() : device_location(device);
  check(cudaMemAdvise(memory.data, memory.bytes, calls_for(hint).withdraw, place));
}

void prefetch_to_device(managed_range memory, int device, cudaStream_t stream) {
  check(runtime_prefetch(memory, device_location(device), stream));
}

void prefetch_to_host(managed_range memory, cudaStream_t stream) {
  check(runtime_prefetch(memory, host_location(), stream));
}

void discard_range([[maybe_unused]] managed_range what, [[maybe_unused]] cudaStream_t on) {
#if CUDART_VERSION >= 13000
  void* data = what.data;
  std::size_t bytes = what.bytes;
  check_supported(cudaMemDiscardBatchAsync(&data, &bytes, 1, 0, on), "discard managed memory");
#else
  throw unsupported("discard of managed memory needs CUDA 13 or later");
#endif
}

void discard_and_prefetch_to_device([[maybe_unused]] managed_range what, [[maybe_unused]] int device,
                                    [[maybe_unused]] cudaStream_t on) {
#if CUDART_VERSION >= 13000
  void* data = what.data;
  std::size_t bytes = what.bytes, first = 0;
  cudaMemLocation to = device_location(device);
  check_supported(cudaMemDiscardAndPrefetchBatchAsync(&data, &bytes, 1, &to, &first, 1, 0, on),
                  "discard managed memory");
#else
  throw unsupported("discard of managed memory needs CUDA 13 or later");
#endif
}

void prefetch_batch_to_device(std::span<const managed_range> ranges, int device, cudaStream_t stream) {
  prefetch_batch(ranges, device_location(device), stream);
}
void prefetch_batch_to_host(std::span<const managed_range> ranges, cudaStream_t stream) {
  prefetch_batch(ranges, host_location(), stream);
}

}  // namespace um
