// One operation of the driver in progress: it changes the blocks and adds up the time of each change.
#pragma once

#include "simulator/block_table.hpp"
#include "simulator/driver_clock.hpp"
#include "simulator/managed_traffic.hpp"

namespace um {

class driver_operation {
 public:
  // References are kept. `redo_time`: time to repeat the work on a block after an eviction made room.
  driver_operation(block_table& table, const driver_times& times, nanoseconds redo_time)
      : blocks(table), clock(times), times_(times), redo_time_(redo_time) {}

  const uvm_costs& costs() const { return times_.costs(); }
  const driver_times& times() const { return times_; }

  // Faults arrive in random order, so the CPU's mapping of a block is removed in more runs.
  void expect_scattered_faults() { scattered_faults_ = true; }

  // Brings granules to the device: takes a chunk if the block has none, unmaps, copies, clears.
  // `keep_host_copy`: the host's copy stays. What is copied counts as `cause`.
  void make_resident(std::uint32_t id, granule_set want, bool keep_host_copy,
                     byte_count managed_traffic::* cause);
  // Allocates host pages for these granules.
  void populate_host(block_entry& b, granule_set want);
  // Waits for all copies.
  managed_traffic finish();

  block_table& blocks;
  driver_clock clock;
  managed_traffic traffic;

 private:
  void take_chunk(std::uint32_t id);
  void evict_block(block_entry& victim);

  const driver_times& times_;
  nanoseconds redo_time_;
  bool scattered_faults_ = false;
};

// The granules whose host pages are allocated together with these.
granule_set host_pages_to_allocate(const block_entry& b, granule_set want, const uvm_costs& costs);

// Calls of the driver, and the CPU's accesses.
namespace driver {

// `queued`: behind another call on its stream. Ranges are not empty and lie in the arena.
managed_traffic prefetch_to_device(block_table& blocks, const driver_times& times, range r, bool queued);
managed_traffic prefetch_to_host(block_table& blocks, const driver_times& times, range r);
// Only granules that lie wholly in the range are discarded.
managed_traffic discard(block_table& blocks, const driver_times& times, range r);
// The CPU touches every byte of the range once.
managed_traffic touch_by_host(block_table& blocks, const driver_times& times, range r, bool writes);

}  // namespace driver
}  // namespace um
