// What the driver moved, and how long the kernel or caller waited for it.
#pragma once

#include <cstdint>

#include "core/units.hpp"

namespace um {

// What one or several operations of the driver moved and did.
struct managed_traffic {
  nanoseconds time = 0;                // that the kernel or caller waits
  std::uint64_t batches = 0;           // batches of faults
  std::uint64_t faulted_granules = 0;  // granules faulted, each once a batch
  std::uint64_t services = 0;          // blocks serviced because a kernel touched them
  std::uint64_t evicted_blocks = 0;    // with data on the device, displaced by the driver
  std::uint64_t prefetch_calls = 0;
  std::uint64_t discarded_blocks = 0;
  byte_count fault_bytes = 0;          // to the device because a kernel touched them or their neighbours
  byte_count populated_bytes = 0;      // appeared on the device, nothing copied
  byte_count prefetched_in_bytes = 0;  // by calls
  byte_count prefetched_out_bytes = 0;
  byte_count host_populated_bytes = 0;  // host pages allocated
  byte_count evicted_bytes = 0;         // copied out by the driver to make room
  byte_count host_fault_bytes = 0;      // copied out because the CPU touched them
  byte_count remote_bytes = 0;          // read or written by a kernel over the link

  managed_traffic& operator+=(const managed_traffic& other);
  friend bool operator==(const managed_traffic&, const managed_traffic&) = default;
};

}  // namespace um
