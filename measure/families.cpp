#include "measure/families.hpp"

#include <array>

namespace um::measure {

std::span<const family> families() {
  static constexpr std::array<family, 11> all{{
      {"allocation", "allocate, first use, free: every kind of memory", &allocation_cases},
      {"link", "pinned copies each way and both at once, by copy engine and by kernel", &link_cases},
      {"first_touch", "the first access to memory that is nowhere yet, by GPU and CPU", &first_touch_cases},
      {"faults", "the GPU reaches for data on the CPU, and the CPU for data on the GPU", &fault_cases},
      {"prefetch", "cudaMemPrefetchAsync by size, call size, streams and threads", &prefetch_cases},
      {"advice", "what each cudaMemAdvise costs and what it does to accesses", &advice_cases},
      {"discard", "cudaMemDiscardBatchAsync and populating again after it", &discard_cases},
      {"eviction", "three ways to the CPU and back, alone and beside running operators", &eviction_cases},
      {"order", "in which order kernels touch what is on the device and what is not", &order_cases},
      {"device", "rates that no link touches: copies within the device, launches, dense products",
       &device_cases},
      {"convolution", "layers of AlexNet and VGG-16 and large single images on each kind of memory",
       &convolution_cases},
  }};
  return all;
}

}  // namespace um::measure
