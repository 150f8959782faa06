// Iterations of a lowered plan on a simulated machine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/execute.hpp"

namespace um {

// In a row, the first from the initial state; counters filled. Throw as managed_at_start() and
// run_iteration() do (simulator/execute.hpp).
std::vector<trace> simulate(const simulated_run& run, std::uint32_t iterations, bool timeline = false,
                            const step_observer& starts = {});
std::vector<trace> simulate(const problem& p, const execution_plan& plan, std::uint32_t iterations);

struct simulation {
  std::vector<trace> iterations;
  std::optional<steady_cycle> cycle;
};
// The same, and with `cycle` what they come to where the last two differ: at most 24 more are looked at for a
// period that comes twice in a row.
simulation simulate_steadily(const simulated_run& run, std::uint32_t iterations, bool timeline, bool cycle);

// The least and the most of a later iteration in either order of touch, with the machine's figures at either
// end of their widths, and as it was simulated (`known`): the median of as many iterations, but at most four.
time_band band_of(const simulated_run& run, const std::vector<trace>& known);

}  // namespace um
