// Strategies that leave every tensor in managed memory and decide which hints the driver gets, and
// when.
#pragma once

#include <span>

#include "core/planner.hpp"

namespace um {

std::span<const strategy> hints();

// No hint at all: the driver migrates on demand.
memory_plan plan_managed(const problem& p);
// Parameters and their gradients prefer the device, inputs are read-mostly.
memory_plan plan_managed_advise(const problem& p);
// Prefetches what an operator reads and writes `ahead` operators before it runs.
memory_plan plan_managed_prefetch(const problem& p);

}  // namespace um
