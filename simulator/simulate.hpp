// Iterations of a lowered plan on a simulated machine.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/execute.hpp"

namespace um {

// In a row, the first from the initial state; counters filled. Throw as managed_at_start() and
// run_iteration() do (simulator/execute.hpp).
std::vector<trace> simulate(const simulated_run& run, std::uint32_t iterations, bool timeline = false,
                            const step_observer& starts = {});
std::vector<trace> simulate(const problem& p, const execution_plan& plan, std::uint32_t iterations);

}  // namespace um
