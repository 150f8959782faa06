// Offsets of tensors in pinned host memory, and where each tensor is when an iteration begins and ends.
#pragma once

#include <vector>

#include "core/layout.hpp"

namespace um {

struct home_addresses {
  std::vector<byte_count> pinned_offset;  // per tensor, in pinned host memory, if it has a place there
  byte_count pinned_bytes = 0;
  std::vector<address> at_start;  // per tensor; meaningful for tensors that persist
  std::vector<address> at_end;    // per tensor; meaningful for tensors that survive
};

// A twin gets an offset only if the plan copies to it or the tensor starts there.
home_addresses home_addresses_of(const graph& g, const memory_plan& plan, const lifetime_table& table,
                                 const layout& at);

}  // namespace um
