// Operator times without a GPU: the roofline model.
#pragma once

#include "core/graph.hpp"
#include "core/machine.hpp"
#include "core/planner.hpp"

namespace um {

// Per operator: one launch plus the longer of its arithmetic at fp32_flops_per_s and its memory
// traffic at device_bytes_per_s, each operand byte moved once; no workspace. No efficiency enters:
// the machine's rates are sustained ones, so a real kernel that wastes either is slower.
// Throws std::invalid_argument, naming the machine, where it lacks a rate that is needed.
profile estimate(const graph& g, const machine& on);

}  // namespace um
