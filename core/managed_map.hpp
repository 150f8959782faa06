// The managed arena of a laid-out plan: which range a part of a tensor covers, and what of it the
// tensor still owns once later tensors have taken its addresses over.
#pragma once

#include <cstdint>
#include <vector>

#include "core/layout.hpp"

namespace um {

class managed_map {
 public:
  // Keeps references, but none to the plan: the rest must outlive the map.
  managed_map(const graph& g, const memory_plan& plan, const lifetime_table& table, const layout& at);

  // Where a managed tensor that some compute touches lies, and from which action on.
  byte_count offset_of(tensor_id t) const { return at_.offset[table_.of_tensor[t].front()]; }
  const lifetime& lifetime_of(tensor_id t) const { return table_.all[table_.of_tensor[t].front()]; }
  bool is_touched(tensor_id t) const { return !table_.of_tensor[t].empty(); }

  // Room that a twinned tensor takes before its first use is not to be somebody else's still at action `now`,
  // and something uses it: throws std::invalid_argument.
  void refuse_early(tensor_id t, std::uint32_t now) const;

  // The range that a part of a tensor covers; empty if no compute touches the tensor. Inner borders
  // are rounded down to whole blocks, so that the parts of a tensor tile its blocks. Throws
  // std::invalid_argument for a part along another axis than batch, and for one of a twinned tensor that
  // does not begin and end on blocks.
  range range_of(tensor_id t, const box& part) const;
  // What of that can be discarded: blocks that a part shares with the one before it are not.
  range range_alone(tensor_id t, const box& part) const;

  // What of that range the tensor owns at action `now`. Tensors below one block share blocks and are
  // never given up alone: they own nothing.
  std::vector<range> owned(tensor_id t, const box& part, std::uint32_t now) const;
  // The same of range_alone().
  std::vector<range> owned_alone(tensor_id t, const box& part, std::uint32_t now) const;

 private:
  std::vector<range> owned_of(tensor_id t, const range& r, std::uint32_t now) const;
  bool took_over(std::uint32_t taker, tensor_id t, std::uint32_t now) const;

  const graph& g_;

  const lifetime_table& table_;
  const layout& at_;
  std::vector<bool> twinned_;                       // per tensor
  std::vector<std::vector<std::uint32_t>> takers_;  // per tensor: lifetimes whose addresses meet its own
};

}  // namespace um
