// The managed arena of a plan: the range of each part of a tensor, and how much of it the tensor still owns
// after later tensors have reused its addresses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/layout.hpp"

namespace um {

class managed_map {
 public:
  // Keeps references to all arguments but the plan.
  managed_map(const graph& g, const memory_plan& plan, const lifetime_table& table, const layout& at);

  // Offset and lifetime of a managed tensor that some compute touches.
  byte_count offset_of(tensor_id t) const { return layout_.offsets[table_.by_tensor[t].front()]; }
  const lifetime& lifetime_of(tensor_id t) const { return table_.lifetimes[table_.by_tensor[t].front()]; }
  bool is_touched(tensor_id t) const { return !table_.by_tensor[t].empty(); }

  // Throws std::invalid_argument if a prefetch of a twinned tensor at action `now` takes addresses that
  // another tensor still uses, or if no operator touches the tensor.
  void throw_if_prefetch_is_early(tensor_id t, std::uint32_t now) const;

  // The range that a part of a tensor covers; empty if no compute touches the tensor. Inner borders
  // are rounded down to whole blocks, so that the parts of a tensor tile its blocks. Throws
  // std::invalid_argument for a part along another axis than batch, and for one of a twinned tensor that
  // does not begin and end on blocks.
  range range_of(tensor_id t, const box& part) const;
  // The range of a part that can be discarded: it leaves out the block that is shared with the previous part.
  range discardable_range(tensor_id t, const box& part) const;

  // The ranges of a part that the tensor owns at action `now`. Tensors smaller than a block share blocks and
  // own none, so they are never released alone.
  std::vector<range> owned_ranges(tensor_id t, const box& part, std::uint32_t now) const {
    return owned_ranges_in(t, range_of(t, part), now);
  }
  // The owned ranges within discardable_range().
  std::vector<range> owned_discardable_ranges(tensor_id t, const box& part, std::uint32_t now) const;

 private:
  std::vector<range> owned_ranges_in(tensor_id t, const range& r, std::uint32_t now) const;
  bool has_reused_addresses_of(std::uint32_t other_lifetime, tensor_id t, std::uint32_t now) const;

  const graph& g_;

  const lifetime_table& table_;
  const layout& layout_;
  std::vector<bool> is_twinned_;                         // per tensor
  std::vector<std::vector<std::uint32_t>> overlapping_;  // per tensor: lifetimes that share addresses with it
};

// The lifetimes of a plan, their addresses, and the owners of the managed arena. Not copyable:
// members refer to one another.
struct placement {
  // Packs each arena with `how`.
  placement(const problem& p, const memory_plan& plan, packer how);
  // Reuses the addresses of `known`, whose plan differs only in movements of managed memory and stages no
  // tensor.
  placement(const problem& p, const memory_plan& plan, const placement& known);
  placement(const placement&) = delete;
  placement& operator=(const placement&) = delete;

  // Blocks of managed memory that fit the budget next to the device arena.
  std::uint64_t managed_blocks_within(byte_count budget) const {
    return (budget - std::min(budget, addresses.device_bytes)) / managed_block;
  }

  lifetime_table table;
  layout addresses;
  managed_map managed;
};

}  // namespace um
