// Computes the lifetimes of a plan.
#pragma once

#include "core/lifetime_table.hpp"
#include "core/planner.hpp"

namespace um {

// Alignment that an operator needs for its operands, if larger than an element.
byte_count operand_alignment(const op& o);
// Whether convolution engines support this padding: equal above and below, up to the remainder of the stride.
// For other padding, a part copies its rows of x, with padding, into its workspace.
constexpr bool is_even(const row_padding& rows, std::int64_t stride) {
  return rows.above >= 0 && rows.below <= rows.above && rows.below > rows.above - stride;
}

// Computes the lifetimes of a plan, for which defect_of() must return nothing. Lifetimes of managed tensors
// follow from the computes alone: movements do not change their addresses. Throws std::invalid_argument for
// movements of twinned tensors that their parts do not allow.
lifetime_table lifetimes_of(const problem& p, const memory_plan& plan);

}  // namespace um
