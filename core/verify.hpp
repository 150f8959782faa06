// Proves a plan without running it: executes the action list on value tokens. What an iteration must
// leave is what the next one starts from, so one proves them all.
#pragma once

#include <optional>
#include <string>

#include "core/memory_plan.hpp"

namespace um {

// Why the plan is wrong, naming the action, the operator and the tensor; nothing if it is right:
// every operator is computed, every read finds the value it would have in graph order (not absent,
// stale or discarded), what parts sum up is complete when they tile the sum without meeting, and parameters,
// gradients and outputs hold their values at the end.
std::optional<std::string> defect_of(const graph& g, const memory_plan& plan);

}  // namespace um
