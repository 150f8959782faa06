// Memory in use after each action of a plan: bytes of the device arena, resident blocks of the managed arena,
// and the blocks that each action adds and releases.
#pragma once

#include <cstdint>
#include <vector>

#include "core/managed_map.hpp"

namespace um {

// Indices of the blocks of the managed arena that a range overlaps.
struct block_range {
  std::size_t begin = 0, end = 0;  // indices [begin, end)
};
constexpr block_range blocks_of(const range& r) {
  if (r.bytes == 0) return {};
  return {static_cast<std::size_t>(r.offset / managed_block),
          static_cast<std::size_t>((r.offset + r.bytes + managed_block - 1) / managed_block)};
}

// Blocks that one action adds and releases. `added`: ranges whose blocks become resident, or in which only
// small tensors were resident before.
struct residency_change {
  std::vector<range> added;
  std::uint64_t released_blocks = 0;
};

// Tracks the resident blocks of a managed arena, action by action; none is resident at first. A tensor owns
// its blocks from its first compute in an iteration until another tensor at these addresses is first used. A
// movement releases only blocks that its tensor owns.
class block_ledger {
 public:
  // Keeps references. `managed` must belong to a plan with the same computes.
  block_ledger(const graph& g, const std::vector<residence>& home, const managed_map& managed,
               byte_count arena_bytes);

  void begin_iteration() { was_touched_.assign(was_touched_.size(), false); }
  residency_change apply(const action& a);

  bool was_touched(tensor_id t) const {
    return was_touched_[t];
  }  // whether a compute of this iteration touched the tensor
  std::uint64_t resident_count() const { return resident_count_; }  // number of resident blocks
  std::size_t block_count() const { return resident_.size(); }
  bool is_resident(std::size_t block) const { return resident_[block]; }
  // Whether a prefetch of the range would move nothing.
  bool is_fully_resident(const range& r) const;
  // Owner of a block that is unused or shared by small tensors.
  static constexpr tensor_id no_owner = no_lifetime;
  tensor_id owner(std::size_t block) const { return owners_[block]; }

 private:
  std::vector<range> add_blocks(const range& r, bool fills_blocks);
  void release_blocks(tensor_id t, const range& r);
  void touch_operands(const compute& x, residency_change& c);
  void take_ownership(tensor_id t);

  const graph& g_;
  const std::vector<residence>& home_;
  const managed_map& managed_;
  std::vector<bool> resident_,
      is_filled_;                  // per block; is_filled_: more than small tensors are resident in it
  std::vector<tensor_id> owners_;  // per block
  std::vector<bool> was_touched_;  // per tensor: touched by a compute of this iteration
  std::uint64_t resident_count_ = 0;
};

struct residency {
  std::vector<byte_count> live_device_bytes;   // per action: bytes in use in the device arena after it
  std::vector<std::uint64_t> resident_blocks;  // per action: resident blocks of the managed arena after it
  std::vector<residency_change> changes;

  // Bytes in use after an action.
  byte_count bytes_in_use(std::size_t at) const {
    return live_device_bytes[at] + resident_blocks[at] * managed_block;
  }
  std::uint64_t peak_blocks() const {
    return resident_blocks.empty() ? 0 : *std::ranges::max_element(resident_blocks);
  }
  // The last action whose release action `at` must wait for, so that at most `capacity` blocks are ever in
  // use; -1: none.
  std::int32_t release_to_wait_for(std::size_t at, std::uint64_t capacity) const;
};

// The residency during any iteration but the first, which starts with fewer resident blocks.
residency residency_of(const graph& g, const memory_plan& plan, const layout& at, const managed_map& managed);

}  // namespace um
