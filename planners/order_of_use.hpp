// Plans that do not depend on the order in which a file lists tensors.
#pragma once

#include "core/planner.hpp"

namespace um {

// The number of each tensor if those that operators name first come first; tensors that none names keep their
// order behind them.
std::vector<tensor_id> order_of_use(const graph& g);

// The graph with tensor t at place number[t].
graph renumbered(const graph& g, const std::vector<tensor_id>& number);

// Sorts the tensors by first use, calls `make`, and numbers the plan's tensors as in `p` again. If that plan
// takes more than the budget once packed, calls `make` with the tensors as they are in `p`.
memory_plan plan_in_order_of_use(const problem& p, const planner& make);

}  // namespace um
