// Strategies that keep tensors in managed memory and choose hints for the driver: a table of rules, and the
// planner that follows rules.
#pragma once

#include <span>

#include "core/planner.hpp"
#include "hints/rules.hpp"

namespace um {

// All hint strategies, as rules and as strategies, in the same order.
std::span<const hint_strategy> hint_table();
std::span<const strategy> hint_strategies();

// Makes the plan of a hint strategy, for which defect_of() must return nothing. With evictor::plan the
// managed memory in use stays within what the budget leaves, by the strategy's own evictions or else by
// evictions in the driver's order. Throws infeasible if an operator's operands exceed that.
memory_plan plan_hints(const hint_strategy& s, const problem& p);

// The strategy whose planner follows these rules.
strategy make_strategy(hint_strategy s);

}  // namespace um
