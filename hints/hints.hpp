// Strategies that keep tensors in managed memory and choose hints for the driver: a table of rules, and the
// planner that follows rules.
#pragma once

#include <span>

#include "core/planner.hpp"
#include "hints/rules.hpp"

namespace um {

// The table, as rules and as strategies, in the same order.
std::span<const hint_strategy> hint_table();
std::span<const strategy> hint_strategies();

// `s` must have no defect_of(). With pressure::plan the managed memory in use stays within what the budget
// leaves: by the strategy's own evictions, otherwise in the driver's order. Throws infeasible if an
// operator's operands exceed that.
memory_plan plan_hints(const hint_strategy& s, const problem& p);

// A strategy that follows these rules.
strategy make_strategy(hint_strategy s);

}  // namespace um
