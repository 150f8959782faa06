// The state of a managed arena: where each granule of each block is, which blocks hold device memory, and in
// which order the driver evicts them. Times are in driver_operation.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/box.hpp"
#include "core/memory_plan.hpp"
#include "simulator/granules.hpp"

namespace um {

// Lists of chunks of device memory, in the order in which victims are taken from them.
enum class chunk_list : std::uint8_t { none, unused, discarded, used };

struct block_entry {
  granule_set device = 0, host = 0;      // where the data is; in both: read-mostly data
  granule_set host_pages = 0;            // granules with allocated host pages
  granule_set host_mapped = 0;           // granules that the CPU has mapped
  granule_set remote = 0;                // granules on the host that the device has mapped
  granule_set discarded = 0;             // granules on the device that were discarded
  std::uint32_t previous = 0, next = 0;  // neighbours in the list that the block is in
  chunk_list list = chunk_list::none;
  std::uint8_t advice_bits = 0;
  bool visited = false;          // whether the GPU has touched the block
  bool has_clean_chunk = false;  // its chunk was free before, so it needs no clearing
};

bool is_advised(const block_entry& b, advice hint);
// Whether kernels access its data over the link instead of migrating it. Read-mostly advice takes precedence;
// data with a preferred device migrates.
bool is_accessed_remotely(const block_entry& b);
// Maps data on the host for the device if kernels access it over the link.
void map_if_accessed_remotely(block_entry& b);
// The granules that a kernel reads or writes without a fault. A write to data that is mapped read-only
// faults: read-mostly data, which is copied, and discarded data.
granule_set accessible_without_fault(const block_entry& b, bool writes);
// The granules that one service of these faults makes resident. The prefetcher never adds discarded data.
granule_set granules_made_resident(const block_entry& b, granule_set asked, bool writes);

// The blocks [first, last] that a non-empty range covers, and the covered granules of the first and the last
// one.
struct block_cover {
  std::uint32_t first = 0, last = 0;  // indices of the first and the last block
  granule_set first_granules = 0, last_granules = 0;
  granule_set granules_of(std::uint32_t id) const {
    return id == first ? first_granules : id == last ? last_granules : all_granules;
  }
};
block_cover cover_of(range r);

class block_table {
 public:
  // Throws std::invalid_argument for an arena of too many blocks or without capacity.
  block_table(byte_count arena_bytes, std::uint64_t capacity_blocks);

  block_entry& operator[](std::uint32_t id) { return entries_[id]; }
  const block_entry& operator[](std::uint32_t id) const { return entries_[id]; }
  std::uint64_t size() const { return count_; }
  std::uint64_t capacity() const { return capacity_; }
  // Chunks in use, also those with nothing resident in them.
  std::uint64_t chunks_in_use() const { return chunks_in_use_; }
  std::uint64_t evictions() const { return evictions_; }
  bool is_full() const { return chunks_in_use_ >= capacity_; }

  // Throws std::out_of_range if the range is not inside the arena.
  void require_inside(range r) const;
  void advise(range r, advice hint);

  // Takes a free chunk, which belongs to no list until append().
  void take_free_chunk() { ++chunks_in_use_; }
  // Evicts the first victim from its list: the head of the unused list, else of the discarded, else of the
  // used one. Returns its block; nothing if all lists are empty.
  std::optional<std::uint32_t> evict_first_victim();
  // Moves the block to the tail of a list.
  void append(std::uint32_t id, chunk_list to);
  // Moves a block with nothing resident to the unused list, from which victims are taken first.
  void release_if_empty(std::uint32_t id) {
    if (entries_[id].device == 0 && entries_[id].list != chunk_list::none) append(id, chunk_list::unused);
  }

 private:
  std::uint32_t sentinel(chunk_list of) const { return count_ + static_cast<std::uint32_t>(of) - 1; }
  void unlink(std::uint32_t id);

  std::uint32_t count_ = 0;  // number of blocks
  std::uint64_t capacity_ = 0, chunks_in_use_ = 0,
                evictions_ = 0;       // numbers of chunks of device memory; evictions so far
  std::vector<block_entry> entries_;  // the blocks, then the sentinels of the three lists
};

}  // namespace um
