// What the driver did with managed memory, as CUPTI counts it. Counting takes time, so whatever is
// counted is timed in another run. The library is loaded when a counter is made, not linked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>

#include "core/trace.hpp"
#include "core/units.hpp"

namespace um {

// Why bytes moved, as CUPTI tells causes apart; also the index in by_cause.
enum class migration_cause : std::uint8_t {
  unknown,
  user,    // prefetch or advice
  demand,  // what a fault asked for
  tree,    // what the driver brought along with it
  eviction,
  access_counter
};

struct migrated_bytes {
  byte_count all = 0;
  std::array<byte_count, 6> by_cause{};
};

struct unified_memory_counts {
  migrated_bytes to_device, to_host;
  std::uint64_t cpu_faults = 0;
  std::uint64_t gpu_faults = 0;        // records of faults; CUDA 13.0 has one for a batch of them
  std::uint64_t gpu_fault_groups = 0;  // what their values add up to
  std::uint64_t thrashing = 0, throttling = 0, remote_maps = 0;
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;                       // records lost: the counts are not whole
  std::map<std::uint64_t, std::uint64_t> batches;  // fault groups replayed together, by that time
};

// Adds one record of CUPTI's activity kind UNIFIED_MEMORY_COUNTER, of CUDA 12's or 13's layout;
// other kinds are passed over.
void add_record(unified_memory_counts& to, const std::byte* record);

// What they say of the causes that records keep: how often kernels faulted and how managed memory moved.
// Nothing else, and no cause that CUPTI could not name.
counters counters_of(const unified_memory_counts& counts);

// One at a time in a process. Throws unsupported with the reason where nothing can be counted: no
// library, no permission, a platform without these counters.
class unified_memory_counter {
 public:
  unified_memory_counter();
  ~unified_memory_counter();
  unified_memory_counter(const unified_memory_counter&) = delete;
  unified_memory_counter& operator=(const unified_memory_counter&) = delete;

  // Until stop(), a thread takes records from the driver as they come: it keeps few thousand of a process,
  // and says of none that it lost. On a host that holds that thread up for some ten milliseconds counts may
  // be too low unseen.
  void start();
  // Waits for the GPU and for records on their way, some ten milliseconds. Counts of which `is_whole` says
  // no must not be used.
  unified_memory_counts stop();

 private:
  unified_memory_counts collect();
  std::jthread collector_;
};

// Nothing was dropped, and what faults brought in has faults.
bool is_whole(const unified_memory_counts& counts);

}  // namespace um
