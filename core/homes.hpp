// Offsets of tensors in pinned host memory, and the address of each tensor at the start and end of an
// iteration.
#pragma once

#include <vector>

#include "core/layout.hpp"

namespace um {

struct home_addresses {
  std::vector<byte_count> pinned_offset;  // per tensor that has a place in pinned host memory
  byte_count pinned_bytes = 0;
  std::vector<address> at_start;  // per tensor; meaningful for tensors that persist
  std::vector<address> at_end;    // per tensor; meaningful for tensors that survive
};

// A twin has an offset only if the plan copies to it or the tensor starts there.
home_addresses home_addresses_of(const graph& g, const memory_plan& plan, const lifetime_table& table,
                                 const layout& at);

}  // namespace um
