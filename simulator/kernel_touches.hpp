// The driver's work for the accesses of one kernel: all operands that are not in the device arena, in the
// order of touch_order.hpp; or for those of the CPU, by address (core/cpu_work.hpp).
#pragma once

#include "simulator/managed_memory.hpp"
#include "simulator/simulated_run.hpp"

namespace um {

// Throws std::invalid_argument for a step that is no compute, or a rate the machine lacks.
managed_traffic touch_operands(const simulated_run& run, const step& s, managed_memory& memory);

}  // namespace um
