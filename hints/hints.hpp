// Strategies that leave tensors in managed memory and decide which hints the driver gets, and when:
// rows of a table of rules, and the one planner that follows rules.
#pragma once

#include <span>

#include "core/planner.hpp"
#include "hints/rules.hpp"

namespace um {

// The rows, as rules and as strategies, in the same order.
std::span<const hint_strategy> hint_table();
std::span<const strategy> hints();

// `s` has passed defect_of(). Under pressure::plan the plan keeps the managed memory in use within what
// the budget leaves: by the strategy's own evictions, and in the driver's order where it has none.
// Throws infeasible if an operator's operands exceed that.
memory_plan plan_hints(const hint_strategy& s, const problem& p);

// A row for tables of strategies, which holds the rules.
strategy strategy_of(hint_strategy s);

}  // namespace um
