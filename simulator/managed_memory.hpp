// One managed arena under the driver's rules: where each granule of each block lives, in which order the
// driver evicts, and how long each operation takes.
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
#include "core/machine.hpp"
#include "simulator/block_table.hpp"
#include "simulator/driver_clock.hpp"
#include "simulator/driver_operation.hpp"

namespace um {

// The faults that a kernel raises on managed memory, and how the driver services them.

// How a kernel goes through a range.
//
// All threads of a sparse or shuffled touch are resident at once. They use resident data while misses wait,
// and migrated data as soon as it arrives. So each missing granule migrates once, whatever is evicted
// meanwhile: the best case. `hits_wait` is the worst case: no granule is used before its turn, and
// one that is evicted before its turn migrates again. Other touches go through the range by address, in turn.
struct touch_pattern {
  unsigned stride = 1;     // distance of touched granules, from the first one of the range on
  bool dependent = false;  // a single thread makes dependent accesses: one granule a batch
  bool sparse = false;     // a thread per granule touches one page, by address; otherwise all bytes
  bool shuffled = false;   // granules of the whole range in random order
  bool hits_wait = false;  // hits wait for earlier misses of a sparse or shuffled touch
  friend bool operator==(const touch_pattern&, const touch_pattern&) = default;
};

// The GPU's access counters: accesses over the link, per granule.
class access_counters {
 public:
  access_counters(std::uint64_t blocks, std::uint64_t threshold);
  // Counts `bytes` of access to a granule. If its counter was full before, resets it and returns true.
  bool count_reaches_threshold(std::uint32_t block, unsigned granule, byte_count bytes);
  bool is_on() const { return threshold_ > 0; }

 private:
  std::uint64_t threshold_;
  std::vector<std::uint32_t> access_counts_;  // per granule
};

// One touch of one range by a kernel.
class kernel_faults {
 public:
  // Keeps references. `driver_is_busy`: the driver is not idle when the first fault arrives.
  kernel_faults(block_table& blocks, access_counters& counters, const driver_times& times, range r,
                access_mode mode, touch_pattern how, bool driver_is_busy);
  managed_traffic run();

 private:
  struct fault {
    std::uint32_t block = 0;   // index of the block
    granule_set granules = 0;  // granules that were not resident
  };

  void touch_by_address();
  bool touch_block(std::uint32_t id, granule_set needed);
  void touch_shuffled();
  granule_set& pending_in(std::uint32_t id) { return pending_[id - touched_blocks_.first]; }
  void find_pending();
  void complete_accesses(std::uint32_t id, granule_set granules);
  void add_to_batch(std::uint32_t id, granule_set granules);

  granule_set touched_in(std::uint32_t id) const;
  byte_count bytes_touched(std::uint32_t id, granule_set granules) const;

  void service_batch();
  void service(const fault& f);
  void service_discarded(const fault& f);
  void service_in_place(const fault& f);
  void write_read_mostly(const fault& f);
  void access_remote(std::uint32_t id, granule_set touched);
  granule_set granules_to_migrate(std::uint32_t id, granule_set touched);

  block_table& blocks_;
  access_counters& counters_;
  driver_operation driver_;
  range range_;
  block_cover touched_blocks_;
  access_mode mode_;
  bool writes_;
  touch_pattern pattern_;
  bool driver_is_busy_;
  unsigned batch_limit_;              // maximum number of granules in a batch
  std::vector<fault> batch_;          // faults collected but not serviced yet
  unsigned batch_granules_ = 0;       // granules in the batch
  std::vector<granule_set> pending_;  // per block: granules not used yet; for sparse and shuffled touches
};

// State of one block; sets have a bit for each granule.
struct managed_block_state {
  granule_set on_device = 0, on_host = 0, discarded = 0;
  granule_set mapped_by_host = 0;  // granules that the CPU has mapped
  granule_set remote = 0;          // granules on the host that the device has mapped
  bool visited = false;  // whether the GPU has touched the block: its host pages are then mapped for DMA
  bool holds_chunk = false;
  friend bool operator==(const managed_block_state&, const managed_block_state&) = default;
};

// A value type: copies are independent. Ranges outside the arena throw std::out_of_range. A range that covers
// a part of a granule covers the granule, except in discard() and for bytes that cross the link.
class managed_memory {
 public:
  // Throws std::invalid_argument for an arena that is too large or without capacity.
  managed_memory(byte_count arena_bytes, std::uint64_t capacity_blocks, const machine& on);

  // Puts data of the range on the host: mapped by the CPU and never seen by the device, as after
  // initialisation by the CPU, or, if `seen`, mapped by no processor, as after an eviction.
  void place_on_host(range r, bool seen = false);

  // Touches every byte of the range once by a kernel, by address. `driver_is_busy`: the driver is not idle,
  // as for all but the first of several touches of one kernel.
  managed_traffic touch(range r, access_mode mode, touch_pattern how = {}, bool driver_is_busy = false);
  // Whether a touch would cause no fault and no access over the link.
  bool would_hit(range r, access_mode mode) const;
  // The parts of the ranges on which a touch would fault or that it would reach over the link: whole granules
  // except at the ends of ranges, by address.
  std::vector<range> missing_ranges(const std::vector<range>& runs, access_mode mode) const;
  // `queued`: whether another call precedes it on its stream.
  managed_traffic prefetch_to_device(range r, bool queued = false);
  managed_traffic prefetch_to_host(range r);
  // Discards the granules that lie wholly in the range.
  managed_traffic discard(range r);
  // Applies the advice to every block that the range overlaps.
  void advise(range r, advice hint) { blocks_.advise(r, hint); }
  // The CPU touches every byte of the range once.
  managed_traffic touch_by_host(range r, access_mode mode);

  managed_block_state state(std::uint64_t block) const;
  std::uint64_t block_count() const { return blocks_.size(); }
  std::uint64_t capacity() const { return blocks_.capacity(); }
  // Number of blocks that hold device memory, including those with nothing resident.
  std::uint64_t held_blocks() const { return blocks_.chunks_in_use(); }
  // Evictions so far.
  std::uint64_t evictions() const { return blocks_.evictions(); }

 private:
  block_table blocks_;
  driver_times times_;
  access_counters counters_;
};

}  // namespace um
