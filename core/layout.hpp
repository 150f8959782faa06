// Where every lifetime of a plan lies, and what that takes: packing applied to lifetimes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/lifetimes.hpp"
#include "core/lower.hpp"
#include "core/pack.hpp"

namespace um {

struct layout {
  std::vector<byte_count> offset;  // one per lifetime, in the device arena or the managed arena
  byte_count device_bytes = 0, managed_bytes = 0;
  std::vector<byte_count> live_device;  // bytes of the device arena that hold something, one per action
  footprint_terms terms;
};

// Lifetimes that share an address in place are packed as one. Managed lifetimes are packed on a
// clock that counts computes alone, so that movements a planner adds later leave every managed
// address as it was.
layout lay_out(const graph& g, const lifetime_table& table, const memory_plan& plan, packer how);

// Bytes that hold something in either arena at each action of a plan, workspaces included: the lower
// bound of what packing needs.
std::vector<byte_count> live_bytes(const problem& p, const memory_plan& plan);

// Do two lifetimes overlap in the addresses of one arena?
bool meet(const lifetime_table& table, const layout& at, std::uint32_t a, std::uint32_t b);

}  // namespace um
