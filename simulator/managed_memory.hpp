// One managed arena under the driver's rules: which granule of which block lives where, in which
// order the driver takes device memory away, and what each operation takes.
//
// The rules, as read in NVIDIA's open kernel module (kernel-open/nvidia-uvm, 595.45.04; file and
// function in brackets):
//   - Faults are serviced in batches: those that have arrived, at most 256, sorted by address; the
//     faults of one block make one service. A replay follows, and the driver waits for it: copies of
//     a batch overlap its own work, batches do not overlap one another
//     [uvm_gpu_replayable_faults.c].
//   - A service brings in whole granules of 64 KiB, and with them the largest tree around each of
//     which more than 51 % is resident or asked for [uvm_perf_prefetch.c]. Data resident nowhere
//     that prefers the device comes whole.
//   - Device memory is held in chunks of one block. Victims come from three lists, always the head:
//     chunks with nothing resident, then discarded ones, then used ones
//     [uvm_pmm_gpu.c: pick_root_chunk_to_evict].
//   - A block goes to the tail of the used list whenever the driver makes any of it resident on the
//     device, also where it was resident already. Kernels that hit do not move it
//     [uvm_va_block.c: block_mark_memory_used].
//   - There is no dirty bit: of a victim everything resident is copied out, unless it is discarded
//     or the host still has a copy (read-mostly data) [uvm_va_block.c: uvm_va_block_evict_chunks].
//     The incoming copy waits for the outgoing one. Evicted data is not mapped by the CPU.
//   - Host pages come in the largest chunk that fits: those of a block at once where the host backs blocks
//     by 2 MiB. A chunk of which anything is resident nowhere is cleared whole, whatever is copied there
//     [uvm_va_block.c: block_populate_pages_cpu].
//   - Who needs a chunk and finds none free lets go of its block, evicts, and does its work on the block
//     anew: also where the victim holds nothing [uvm_va_block.c: block_alloc_gpu_chunk]. Only then does
//     the block get its chunk; what of it lies nowhere is cleared once the victim's copy is out
//     [block_zero_new_gpu_chunk]. Discarded data leaves without a copy, but for host pages, cleared, where
//     it has none.
//   - A prefetch of several blocks walks them twice, so one that exceeds the capacity moves the
//     blocks it evicted itself a second time [uvm_migrate.c]. Each call here counts as one walk
//     over its whole range; whether libcuda splits large calls is not public.
//   - A kernel write to a discarded block leaves it on the discarded list though its value counts
//     again, so it is evicted early, with a copy [uvm_va_block.c: block_map_gpu_to].
//   - Read-mostly data stays mapped read-only: what a kernel writes of it faults page by page, on every
//     pass, as on an H200.
//   - Where data prefers the host or is accessed by the device without moving, kernels reach it
//     over the link [uvm_va_block.c: block_select_processor_residency]. Either advice maps what lies
//     on the host at once: on an H200 with driver 580, CUPTI counts no fault on the first access.
#pragma once

#include <cstdint>
#include <vector>

#include "core/access.hpp"
#include "core/lower.hpp"
#include "core/machine.hpp"
#include "core/memory_plan.hpp"
#include "simulator/driver_clock.hpp"

namespace um {

// What one operation, or several, made the driver do.
struct managed_traffic {
  nanoseconds time = 0;              // for which the causer waits
  std::uint64_t batches = 0;         // of faults
  std::uint64_t fault_groups = 0;    // granules faulted, each once a batch
  std::uint64_t services = 0;        // blocks serviced because a kernel touched them
  std::uint64_t evicted_blocks = 0;  // with resident values, displaced by the driver
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

// How a kernel goes through a range.
struct touch_pattern {
  unsigned stride = 1;      // in granules, from the first one of the range
  bool one_by_one = false;  // a single thread of dependent accesses: one granule a batch
  bool sparse = false;      // one page of each granule, by a thread of its own; else every byte
  bool shuffled = false;    // from everywhere at once: blocks in an order without a pattern, granules too
  friend bool operator==(const touch_pattern&, const touch_pattern&) = default;
};

// What a caller may ask about one block; a bit for each granule.
struct managed_block_state {
  granule_set on_device = 0, on_host = 0, discarded = 0;
  granule_set mapped_by_host = 0;  // by the CPU
  granule_set remote = 0;          // on the host, mapped by the device
  bool visited = false;            // the GPU has touched it: its host pages are mapped for DMA
  bool holds_chunk = false;
  friend bool operator==(const managed_block_state&, const managed_block_state&) = default;
};

// A value: copies are independent. Ranges outside the arena throw std::out_of_range. What covers a
// part of a granule covers the granule, except in discard() and for bytes that cross the link.
class managed_memory {
 public:
  managed_memory(byte_count arena_bytes, std::uint64_t capacity_blocks, const machine& on);

  // The range holds data on the host: mapped by the CPU and never seen by the device, as after
  // initialisation by the CPU, or `seen` and mapped by nobody, as after an eviction.
  void place_on_host(range r, bool seen = false);

  // A kernel touches every byte of the range once, by address. The driver is idle before the first
  // of several touches of one kernel only: `busy` says that it is not.
  managed_traffic touch(range r, access_mode mode, touch_pattern how = {}, bool busy = false);
  // Whether a touch would find everything in place.
  bool hits(range r, access_mode mode) const;
  // What of the ranges a touch would not find in place or reach over the link, in whole granules but at
  // their ends, by address.
  std::vector<range> missing(const std::vector<range>& runs, access_mode mode) const;
  // `queued`: behind another call on its stream.
  managed_traffic prefetch_to_device(range r, bool queued = false);
  managed_traffic prefetch_to_host(range r);
  // Only granules that lie wholly in the range are discarded.
  managed_traffic discard(range r);
  // Every block that the range overlaps takes the advice.
  void advise(range r, advice hint);
  // The CPU touches every byte of the range once.
  managed_traffic touch_by_host(range r, access_mode mode);

  managed_block_state state(std::uint64_t block) const;
  std::uint64_t block_count() const { return count_; }
  std::uint64_t capacity() const { return capacity_; }
  // Blocks of device memory held, also those with nothing resident in them.
  std::uint64_t held_blocks() const { return held_; }
  // Chunks taken from a block so far: nothing has left the device while it stays the same.
  std::uint64_t evictions() const { return evictions_; }

 private:
  enum class list : std::uint8_t { none, unused, discarded, used };
  struct entry {
    granule_set device = 0, host = 0;  // both: read-mostly data
    granule_set host_pages = 0;        // allocated
    granule_set host_mapped = 0, remote = 0, discarded = 0;
    std::uint32_t previous = 0, next = 0;
    list in = list::none;
    std::uint8_t hints = 0;
    bool visited = false, clean_chunk = false;
  };
  // Blocks [first, last] of a non-empty range and the granules it covers in each.
  struct cover {
    std::uint32_t first = 0, last = 0;
    granule_set in_first = 0, in_last = 0;
    granule_set of(std::uint32_t id) const;
  };
  struct fault {
    std::uint32_t block = 0;
    granule_set granules = 0;
  };
  struct operation {  // one in progress
    driver_clock clock;
    managed_traffic traffic;
    bool busy = false;
    touch_pattern how;         // of the kernel that faults, if one does
    bool in_no_order = false;  // its faults come so
    nanoseconds anew = 0;      // what is done again of a block that had to wait for room
  };

  cover covered(range r) const;  // of a range that is not empty
  void refuse_outside(range r) const;
  bool advised(const entry& b, advice hint) const;
  bool stays_on_host(const entry& b) const;
  void map_remotely(entry& b) const;
  granule_set ready(const entry& b, bool writes) const;

  granule_set served(const entry& b, granule_set asked, bool writes) const;
  unsigned most_of_batch(touch_pattern how) const;
  nanoseconds fetching(unsigned granules, touch_pattern how) const;
  void service_batch(bool writes, operation& now);
  void service(const fault& f, bool writes, operation& now);
  void service_discarded(const fault& f, operation& now);
  void write_read_mostly(range r, const fault& f, operation& now);
  void touch_shuffled(range r, access_mode mode, const cover& c, operation& now);
  void service_in_place(const fault& f, operation& now);
  void make_resident(std::uint32_t id, granule_set want, bool keeps_host, byte_count managed_traffic::*cause,
                     operation& now);
  void access_remote(range r, std::uint32_t id, granule_set touched, access_mode mode, operation& now);
  granule_set often_accessed(range r, std::uint32_t id, granule_set touched, touch_pattern how);
  bool host_fault(range r, std::uint32_t id, granule_set asked, bool writes, operation& now);
  static void finish_call(nanoseconds fixed, operation& now);
  void expel_block(std::uint32_t id, granule_set want, operation& now);
  granule_set host_chunk_around(const entry& b, granule_set want) const;
  void populate_host(entry& b, granule_set want, operation& now);
  void take_chunk(std::uint32_t id, operation& now);
  void evict_one(operation& now);
  void empty(entry& victim, operation& now);
  void settle(std::uint32_t id);

  void append(std::uint32_t id, list to);
  void unlink(std::uint32_t id);
  std::uint32_t sentinel(list of) const { return count_ + static_cast<std::uint32_t>(of) - 1; }
  operation begin(bool busy = true) const {
    return {driver_clock(prices_), {}, busy, {}, false, prices_.of().service_ns};
  }
  static managed_traffic end(operation& now);

  std::uint32_t count_ = 0;
  std::uint64_t capacity_ = 0, held_ = 0, evictions_ = 0;
  driver_prices prices_;
  std::vector<entry> entries_;           // the blocks, then the sentinels of the three lists
  std::vector<std::uint32_t> accesses_;  // per granule, over the link; only where the machine counts them
  std::vector<fault> batch_;             // of the touch in progress
};

}  // namespace um
