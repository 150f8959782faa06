// From a plan to the table of its lifetimes.
#pragma once

#include "core/lifetime_table.hpp"
#include "core/planner.hpp"

namespace um {

// What the addresses of an operator's operands have to be multiples of, beyond their elements' size.
byte_count operand_alignment(const op& o);
// Whether engines of convolutions can be told of the padding of some rows: as much below as above, but for
// what the stride leaves over. A part that has other padding takes a copy of its rows of x with their padding
// in its workspace.
constexpr bool is_even(const row_padding& rows, std::int64_t stride) {
  return rows.above >= 0 && rows.below <= rows.above && rows.below > rows.above - stride;
}

// `plan` has passed defect_of(). Lifetimes of managed tensors follow from the computes alone:
// movements do not change their addresses. Throws std::invalid_argument for movements of twinned tensors that
// the part cannot make.
lifetime_table lifetimes_of(const problem& p, const memory_plan& plan);

}  // namespace um
