// Makes plans independent of the order in which a file lists tensors.
#pragma once

#include "core/planner.hpp"

namespace um {

// Numbers tensors in the order in which operators first use them. Tensors that no operator uses come last, in
// their old order.
std::vector<tensor_id> first_use_numbers(const graph& g);

// The same graph, with tensor t renumbered to number[t].
graph renumber_tensors(const graph& g, const std::vector<tensor_id>& number);

// Renumbers the tensors by first use, calls `make`, and restores the numbers of `p` in the plan. If that plan
// exceeds the budget once packed, calls `make` with `p` itself.
memory_plan plan_independent_of_numbering(const problem& p, const planner& make);

}  // namespace um
