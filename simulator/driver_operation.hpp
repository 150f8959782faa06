// A driver operation in progress: it changes the blocks and adds up the time of each change.
#pragma once

#include <cstdint>

#include "core/units.hpp"
#include "simulator/block_table.hpp"
#include "simulator/driver_clock.hpp"

namespace um {

// Time and traffic of one or several driver operations.
struct managed_traffic {
  nanoseconds time = 0;                // time that the kernel or caller waits
  std::uint64_t batches = 0;           // batches of faults
  std::uint64_t faulted_granules = 0;  // granules faulted, each counted once per batch
  std::uint64_t services = 0;          // blocks serviced because a kernel touched them
  std::uint64_t evicted_blocks = 0;    // blocks with data on the device that the driver displaced
  std::uint64_t prefetch_calls = 0;
  std::uint64_t discarded_blocks = 0;
  byte_count fault_bytes = 0;      // copied to the device because a kernel touched them or their neighbours
  byte_count populated_bytes = 0;  // made resident on the device without a copy
  byte_count prefetched_in_bytes = 0;  // by prefetch calls
  byte_count prefetched_out_bytes = 0;
  byte_count host_populated_bytes = 0;  // of allocated host pages
  byte_count evicted_bytes = 0;         // copied out by the driver to make room
  byte_count host_fault_bytes = 0;      // copied out because the CPU touched them
  byte_count remote_bytes = 0;          // read or written by a kernel over the link

  managed_traffic& operator+=(const managed_traffic& other);
  friend bool operator==(const managed_traffic&, const managed_traffic&) = default;
};

class driver_operation {
 public:
  // Keeps references. `retry_time`: to repeat the work on a block after an eviction made room.
  driver_operation(block_table& table, const driver_times& times, nanoseconds retry_time)
      : blocks(table), clock(times), times_(times), retry_time_(retry_time) {}

  const uvm_costs& costs() const { return times_.costs(); }
  const driver_times& times() const { return times_; }

  // For faults in random order: the CPU's mapping of a block is removed in more runs.
  void expect_scattered_faults() { scattered_faults_ = true; }

  // Brings granules to the device: takes a chunk if the block has none, unmaps, copies, clears.
  // `keep_host_copy`: the host's copy stays valid. Copied bytes are added to the member `cause`.
  void make_resident(std::uint32_t id, granule_set want, bool keep_host_copy,
                     byte_count managed_traffic::* cause);
  // Allocates host pages for these granules.
  void populate_host(block_entry& b, granule_set want);
  // Waits for all copies. Returns the traffic and time of the operation.
  managed_traffic finish();

  block_table& blocks;
  driver_clock clock;
  managed_traffic traffic;

 private:
  void ensure_chunk(std::uint32_t id);
  void evict_block(block_entry& victim);

  const driver_times& times_;
  nanoseconds retry_time_;
  bool scattered_faults_ = false;
};

// The granules whose host pages are allocated together with these.
granule_set host_pages_to_allocate(const block_entry& b, granule_set want, const uvm_costs& costs);

// Calls of the driver, and the CPU's accesses.
namespace driver {

// `queued`: whether another call precedes it on its stream. Ranges must not be empty and must lie in the
// arena.
managed_traffic prefetch_to_device(block_table& blocks, const driver_times& times, range r, bool queued);
managed_traffic prefetch_to_host(block_table& blocks, const driver_times& times, range r);
// Discards the granules that lie wholly in the range.
managed_traffic discard(block_table& blocks, const driver_times& times, range r);
// The CPU touches every byte of the range once.
managed_traffic touch_by_host(block_table& blocks, const driver_times& times, range r, bool writes);

}  // namespace driver

}  // namespace um
