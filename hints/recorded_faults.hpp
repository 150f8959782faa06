// Simulates a first iteration without hints and tells which operands fault.
#pragma once

#include <vector>

#include "core/planner.hpp"

namespace um {

// For each operator and tensor, whether the operator found some of it off the device in a simulated first
// iteration of plain managed memory under the budget.
std::vector<std::vector<bool>> simulate_first_iteration_faults(const problem& p);

}  // namespace um
