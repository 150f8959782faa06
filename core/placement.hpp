// Where a plan's values lie: their lifetimes, the address of each, and whose the managed arena is when.
#pragma once

#include <algorithm>

#include "core/managed_map.hpp"

namespace um {

// Its members refer to one another, so it stays where it is made.
struct placement {
  // `how` places blocks in each arena.
  placement(const problem& p, const memory_plan& plan, packer how);
  // Of a plan that differs from the one that `known` is of in movements of managed memory alone, nothing
  // being staged: at the same addresses.
  placement(const problem& p, const memory_plan& plan, const placement& known);
  placement(const placement&) = delete;
  placement& operator=(const placement&) = delete;

  // Blocks of managed memory that a budget leaves beside the device arena.
  std::uint64_t blocks_within(byte_count budget) const {
    return (budget - std::min(budget, at.device_bytes)) / managed_block;
  }

  lifetime_table table;
  layout at;
  managed_map managed;
};

}  // namespace um
