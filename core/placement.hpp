// The lifetimes of a plan, their addresses, and the owners of the managed arena.
#pragma once

#include <algorithm>

#include "core/managed_map.hpp"

namespace um {

// Not copyable: members refer to one another.
struct placement {
  // `how` places blocks in each arena.
  placement(const problem& p, const memory_plan& plan, packer how);
  // Takes the addresses of `known`, whose plan differs only in movements of managed memory and stages
  // nothing.
  placement(const problem& p, const memory_plan& plan, const placement& known);
  placement(const placement&) = delete;
  placement& operator=(const placement&) = delete;

  // Blocks of managed memory that fit the budget next to the device arena.
  std::uint64_t blocks_within(byte_count budget) const {
    return (budget - std::min(budget, addresses.device_bytes)) / managed_block;
  }

  lifetime_table table;
  layout addresses;
  managed_map managed;
};

}  // namespace um
