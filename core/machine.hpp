// What a machine can do: the figures that planners and the simulator need. Rates are per second,
// so that integer arithmetic serves.
#pragma once

#include <cstdint>
#include <string>

#include "core/units.hpp"

namespace um {

struct machine {
  std::string name;
  std::string source;       // where the figures come from
  bool calibrated = false;  // measured on that machine by `umbench calibrate`

  byte_count device_bytes = 0;  // usable by a program after the context is up
  byte_count host_bytes = 0;

  std::uint64_t fp32_flops_per_s = 0;
  std::uint64_t tf32_flops_per_s = 0, bf16_flops_per_s = 0;  // dense matrix products; 0: not to be had
  std::uint64_t device_bytes_per_s = 0;                      // device memory bandwidth, reads plus writes

  // Pinned copies over the link, each way alone, and the sum of both ways at once.
  std::uint64_t link_to_device_bytes_per_s = 0;
  std::uint64_t link_to_host_bytes_per_s = 0;
  std::uint64_t link_both_bytes_per_s = 0;

  // Managed memory: rates of the driver's own movements.
  std::uint64_t fault_to_device_bytes_per_s = 0;  // fault-driven, data host-resident, visited before
  std::uint64_t first_fault_bytes_per_s = 0;      // the same on a block the GPU never visited
  std::uint64_t populate_bytes_per_s = 0;         // GPU first touch, resident nowhere
  std::uint64_t discarded_write_bytes_per_s = 0;  // kernel write to discarded data, no prefetch between
  std::uint64_t prefetch_to_device_bytes_per_s = 0;
  std::uint64_t prefetch_to_host_bytes_per_s = 0;
  std::uint64_t evict_bytes_per_s = 0;      // the driver's own eviction, as part of a fault
  std::uint64_t zero_copy_bytes_per_s = 0;  // kernel access to host memory over the link

  nanoseconds launch_ns = 0;         // one kernel
  nanoseconds copy_ns = 0;           // fixed cost of one asynchronous copy
  nanoseconds fault_ns = 0;          // one isolated fault, serviced and replayed
  nanoseconds prefetch_call_ns = 0;  // fixed cost of one prefetch call
  nanoseconds discard_block_ns = 0;  // discard of one 2 MiB block
};

}  // namespace um
