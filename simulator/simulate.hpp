// Iterations of a lowered plan on a simulated machine.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/execute.hpp"

namespace um {

// Simulates consecutive iterations, the first from the initial state. Throws as managed_at_start() and
// run_iteration() do (simulator/execute.hpp).
std::vector<trace> simulate(const simulation_input& run, std::uint32_t iterations, bool timeline = false,
                            const step_observer& on_start = {});
std::vector<trace> simulate(const problem& p, const execution_plan& plan, std::uint32_t iterations);

struct simulation {
  std::vector<trace> iterations;
  std::optional<steady_cycle> cycle;
};
// As simulate(). With `finds_cycle`, if the last two iterations differ, at most 24 more are simulated to find
// a period that occurs twice in a row.
simulation simulate_and_find_cycle(const simulation_input& run, std::uint32_t iterations, bool timeline,
                                   bool finds_cycle);

// Whether the ratio is just above 1: there the result depends on the order of accesses and on the cost of an
// eviction.
inline bool is_just_above_one(double ratio) {
  return ratio >= 1 && ratio <= 1.5;
}
inline bool has_band(const execution_plan& plan, double ratio) {
  return plan.managed_arena_bytes > 0 && is_just_above_one(ratio);
}

// The median time of a later iteration in both touch orders, with the machine's figures at their fast bounds
// and then, where it has bounds, at their slow ones. If no speed of operators was measured, the range of
// speeds on other machines is applied as well.
std::vector<nanoseconds> times_at_figure_bounds(const simulation_input& run, std::uint32_t iterations);

// Minimum and maximum time of a later iteration over the orders by_address and hits_first, both bounds of the
// machine's figures, and the simulated iterations `known`. Each time is the median of as many iterations, at
// most four.
time_band band_of(const simulation_input& run, const std::vector<trace>& known);

}  // namespace um
