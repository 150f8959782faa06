// Plans that do not depend on the order in which a file lists tensors.
#pragma once

#include "core/planner.hpp"

namespace um {

// The number of each tensor if those that operators name first come first; tensors that none names keep their
// order behind them.
std::vector<tensor_id> order_of_use(const graph& g);

// The graph with tensor t at place number[t].
graph renumbered(const graph& g, const std::vector<tensor_id>& number);

// `make`s a plan for the problem with its tensors in that order. Where packing that plan in the order of the
// file takes more than the budget, makes one for the problem as it is.
memory_plan plan_in_order_of_use(const problem& p, const planner& make);

}  // namespace um
