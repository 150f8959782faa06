// A template that owns handles of C libraries. A raw handle in a signature does not own.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "um_allocators/check.hpp"

namespace um {

template <class Raw, auto Destroy>
struct destroy_with {
  using pointer = Raw;
  void operator()(Raw raw) const noexcept { static_cast<void>(Destroy(raw)); }
};

template <class Raw, auto Destroy>
using handle = std::unique_ptr<std::remove_pointer_t<Raw>, destroy_with<Raw, Destroy>>;

using cuda_stream = handle<cudaStream_t, &cudaStreamDestroy>;
using cuda_event = handle<cudaEvent_t, &cudaEventDestroy>;

enum class stream_priority { normal, highest };  // the highest priority gets a free multiprocessor first

// Makes a stream that does not wait for the legacy default stream.
inline cuda_stream make_stream(stream_priority priority = stream_priority::normal) {
  int least = 0, greatest = 0;  // range of stream priorities
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == stream_priority::highest ? greatest : least));
  return cuda_stream(stream);
}

enum class event_use { ordering, timing };

inline cuda_event make_event(event_use use) {
  cudaEvent_t event = nullptr;
  check(
      cudaEventCreateWithFlags(&event, use == event_use::timing ? cudaEventDefault : cudaEventDisableTiming));
  return cuda_event(event);
}

}  // namespace um
