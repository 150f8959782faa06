// What the driver did with managed memory, as CUPTI counts it. Counting takes time, so whatever is
// counted is timed in another run. The library is loaded when a counter is made, not linked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

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

// Faults that the driver serviced and replayed together.
struct fault_batch {
  std::uint64_t faults = 0;
  std::set<std::uint64_t> granules;  // pieces of 64 KiB that they lie in
};

struct unified_memory_counts {
  migrated_bytes to_device, to_host;
  std::uint64_t cpu_faults = 0;
  std::uint64_t gpu_faults = 0;        // faulting pages
  std::uint64_t gpu_fault_groups = 0;  // the same, counted as often as the hardware raised them
  std::uint64_t thrashing = 0, throttling = 0, remote_maps = 0;
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;                     // records lost: the counts are not whole
  std::map<std::uint64_t, fault_batch> batches;  // by the time of their replay
};

// Adds one record of CUPTI's activity kind UNIFIED_MEMORY_COUNTER, of CUDA 12's or 13's layout;
// other kinds are passed over.
void add_record(unified_memory_counts& to, const std::byte* record);

// One at a time in a process. Throws unsupported with the reason where nothing can be counted: no
// library, no permission, a platform without these counters.
class unified_memory_counter {
 public:
  unified_memory_counter();
  ~unified_memory_counter();
  unified_memory_counter(const unified_memory_counter&) = delete;
  unified_memory_counter& operator=(const unified_memory_counter&) = delete;

  void start();
  // Waits for the GPU. Counts with dropped > 0 must not be used.
  unified_memory_counts stop();
};

}  // namespace um
