// Proves a plan without running it: executes the action list on value tokens, twice over, so that
// the second iteration starts from what the first one left.
#pragma once

#include <optional>
#include <string>

#include "core/memory_plan.hpp"

namespace um {

// Why the plan is wrong, naming the action, the operator and the tensor; nothing if it is right:
// every operator is computed, every read finds the value it would have in graph order (not absent,
// stale or discarded), sliced gradients accumulate in part order, and parameters, gradients and
// outputs hold their values at the end.
std::optional<std::string> defect_of(const graph& g, const memory_plan& plan);

}  // namespace um
