// Counts the driver's work on managed memory: by its own events, or by CUPTI where it refuses these. Counting
// takes time, so times come from another run. CUPTI is loaded when a counter is made, not linked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <thread>

#include "core/trace.hpp"
#include "core/units.hpp"
#include "trace/driver_events.hpp"
#include "trace/records.hpp"
#include "trace/uvm_tools.hpp"

namespace um {

// Why the driver moved memory; the index in by_cause.
using migration_cause = tracing::cause;

struct migrated_bytes {
  byte_count total = 0;
  std::array<byte_count, 6> by_cause{};  // by migration_cause
};

struct unified_memory_counts {
  bool counts_faults = true;
  migrated_bytes to_device, to_host;
  std::uint64_t cpu_faults = 0;
  std::uint64_t gpu_faults = 0;  // records of faults: one a batch by CUPTI, one a batch and block by events
  // Sum of the values of these records: granules by events; by CUPTI 13.0 faults on each batch's first page.
  std::uint64_t gpu_fault_groups = 0;
  std::uint64_t thrashing = 0, throttling = 0, remote_maps = 0;  // events of contention
  std::uint64_t record_count = 0;
  std::uint64_t dropped_records = 0;  // records lost: the counts are incomplete
  byte_count lost_bytes = 0;          // moved by the driver, but missing from the records
  std::map<std::uint64_t, std::uint64_t>
      faults_by_batch;  // fault groups that were replayed together, by time
};

// Adds one record of CUPTI's activity kind UNIFIED_MEMORY_COUNTER, of CUDA 12's or 13's layout;
// other kinds are ignored.
void add_record(unified_memory_counts& to, const std::byte* record);

// Returns the counters that records keep: faults of kernels, and movements of managed memory by cause. A
// cause that CUPTI did not name stays empty.
counters counters_of(const unified_memory_counts& counts);

// At most one exists in a process. Throws unsupported with the reason if counting is impossible: no
// library, no permission, a platform without these counters. Where kernels fault a lot, CUPTI loses records
// while it reports faults (half of the bytes of managed VGG-16 on an H100), and none if it does not report
// them. The driver's events lose none.
class unified_memory_counter {
 public:
  explicit unified_memory_counter(bool with_faults = true);
  ~unified_memory_counter();
  unified_memory_counter(const unified_memory_counter&) = delete;
  unified_memory_counter& operator=(const unified_memory_counter&) = delete;

  // Until stop(), a thread takes records as they come. For CUPTI the driver keeps a few thousand for each
  // process and does not report losses: if the host delays that thread by some ten milliseconds, counts may
  // be too low without notice.
  void start();
  // Waits for the GPU and for the last records, some ten milliseconds. Counts for which is_complete() is
  // false must not be used.
  unified_memory_counts stop();

 private:
  unified_memory_counts collect_until_quiet();
  void fetch_records(bool all);  // new records; with `all`, those of all finished work

  bool counts_faults_;
  tracing::driver_events events_;  // CUPTI counts where these are not active
  tracing::driver_counters driver_;
  tracing::driver_sums sums_at_last_collect_;
  std::jthread collector_;
};

// Returns true if no record was lost, and bytes that faults moved have faults where these were counted.
bool is_complete(const unified_memory_counts& counts);

}  // namespace um
