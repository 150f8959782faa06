// One managed arena under the driver's rules, in whole 2 MiB blocks: where each block lives, and
// in which order the driver takes device memory away. A block is the driver's unit of device
// memory and of eviction; what happens below it (64 KiB granules, fault batches, the tree
// prefetcher) is folded into the machine's measured rates, and a block always moves whole.
//
// The rules, as read in NVIDIA's open kernel module (kernel-open/nvidia-uvm, 595.45.04; file and
// function in brackets):
//   - Victims come from three lists, always the head: chunks with nothing resident, then discarded
//     ones, then used ones [uvm_pmm_gpu.c: pick_root_chunk_to_evict].
//   - A block goes to the tail of the used list whenever the driver makes it resident on the
//     device, also where it was resident already. Kernels that hit do not move it
//     [uvm_va_block.c: block_mark_memory_used].
//   - There is no dirty bit: a victim is copied out unless its value is discarded or the host
//     still has a copy (read-mostly data) [uvm_va_block.c: uvm_va_block_evict_chunks].
//   - A prefetch of several blocks walks them twice, so one that exceeds the capacity moves the
//     blocks it evicted itself a second time [uvm_migrate.c]. Each call here counts as one walk
//     over its whole range; whether libcuda splits large calls is not public.
//   - A kernel write to a block discarded before leaves it on the discarded list though its value
//     counts again, so it is evicted early, with a copy [uvm_va_block.c: block_map_gpu_to].
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/access.hpp"
#include "core/lower.hpp"
#include "core/machine.hpp"
#include "core/memory_plan.hpp"

namespace um {

// What one operation, or several, made the driver do.
struct managed_traffic {
  std::uint64_t faulted_blocks = 0;   // serviced because a kernel touched them
  std::uint64_t upgraded_blocks = 0;  // of these: already resident, only their rights changed
  std::uint64_t evicted_blocks = 0;   // resident values the driver displaced
  byte_count fault_bytes = 0;         // to the device on demand, block visited by the GPU before
  byte_count first_fault_bytes = 0;   // the same on the GPU's first visit
  byte_count populated_bytes = 0;     // appeared on the device on demand, nothing copied
  byte_count rewritten_bytes = 0;     // discarded data that a kernel wrote with no prefetch between
  byte_count prefetched_in_bytes = 0;
  byte_count prefetched_out_bytes = 0;
  byte_count zeroed_bytes = 0;       // appeared on the device by a prefetch, nothing copied
  byte_count host_zeroed_bytes = 0;  // the same on the host
  byte_count evicted_bytes = 0;      // copied out by the driver to make room
  byte_count zero_copy_bytes = 0;    // read or written by a kernel over the link
  std::uint64_t prefetch_calls = 0;
  std::uint64_t discarded_blocks = 0;

  managed_traffic& operator+=(const managed_traffic& other);
  friend bool operator==(const managed_traffic&, const managed_traffic&) = default;
};

// How long the causer of the traffic waits for it. Movements of one operation do not overlap one
// another: a kernel's fault batches are serviced in turn, and each waits for its evictions.
nanoseconds time_of(const managed_traffic& t, const machine& on);

// What a caller may ask about one block.
struct managed_block_state {
  bool on_device = false;
  bool on_host = false;
  bool discarded = false;
  bool visited = false;  // the GPU has touched it: its host pages are mapped for DMA
  bool holds_chunk = false;
  friend bool operator==(const managed_block_state&, const managed_block_state&) = default;
};

// A value: copies are independent. Ranges outside the arena throw std::out_of_range.
class managed_memory {
 public:
  managed_memory(byte_count arena_bytes, std::uint64_t capacity_blocks);

  // The blocks the range overlaps hold data on the host, as after initialisation by the CPU.
  void place_on_host(range r);

  // A kernel touches every byte of the range once, in address order.
  managed_traffic touch(range r, access_mode mode);
  managed_traffic prefetch_to_device(range r);
  managed_traffic prefetch_to_host(range r);
  // Only blocks that lie wholly in the range are discarded: the rest of a block may be another's.
  managed_traffic discard(range r);
  // Every block that the range overlaps takes the advice.
  void advise(range r, advice hint);

  managed_block_state state(std::uint64_t block) const;
  std::uint64_t block_count() const { return count_; }
  std::uint64_t capacity() const { return capacity_; }
  // Blocks of device memory held, also those with nothing resident in them.
  std::uint64_t held_blocks() const { return held_; }

 private:
  enum class list : std::uint8_t { none, unused, discarded, used };
  struct entry {
    std::uint32_t previous = 0, next = 0;
    list in = list::none;
    std::uint8_t hints = 0;
    bool on_device = false, on_host = false, discarded = false, visited = false;
  };
  struct block_run {
    std::uint32_t begin = 0, end = 0;
  };

  block_run overlapped(range r) const;
  bool advised(const entry& b, advice hint) const;
  bool stays_on_host(const entry& b) const;
  bool is_hit(const entry& b, bool writes) const;

  void touch_block(std::uint32_t id, bool writes, byte_count bytes, managed_traffic& t);
  void fault(std::uint32_t id, bool writes, managed_traffic& t);
  void prefetch_block(std::uint32_t id, managed_traffic& t);
  void expel_block(std::uint32_t id, managed_traffic& t);
  void take_chunk(std::uint32_t id, managed_traffic& t);
  void evict_one(managed_traffic& t);

  void append(std::uint32_t id, list to);
  void unlink(std::uint32_t id);
  std::uint32_t sentinel(list of) const { return count_ + static_cast<std::uint32_t>(of) - 1; }

  std::uint32_t count_ = 0;
  std::uint64_t capacity_ = 0, held_ = 0;
  std::vector<entry> entries_;  // the blocks, then the sentinels of the three lists
};

}  // namespace um
