// Where values lie outside the arenas of the device, and where each tensor is when an iteration begins and
// ends.
#pragma once

#include <vector>

#include "core/layout.hpp"

namespace um {

struct homes {
  std::vector<byte_count> pinned;  // per tensor: offset of its place in pinned host memory, if it has one
  byte_count pinned_bytes = 0;
  std::vector<address> at_start;  // per tensor; meaningful for tensors that persist
  std::vector<address> at_end;    // per tensor; meaningful for tensors that survive
};

// Twins have a place only if something is ever copied to them, or they start there.
homes homes_of(const graph& g, const memory_plan& plan, const lifetime_table& table, const layout& at);

}  // namespace um
