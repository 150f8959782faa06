// Where the data of a plan of `best` lives, and what the plan takes there.
#pragma once

#include <functional>
#include <optional>

#include "core/lower.hpp"
#include "core/planner.hpp"

namespace um {

struct placed_plan {
  memory_plan plan;
  byte_count need = 0;   // bytes of device memory that it needs
  nanoseconds time = 0;  // of an iteration, with copy_price(); only if `need` is within the budget
};

// How plans are placed and timed. `decided`: a plan of whole or cut operators with data on the device or
// staged, within a budget; `finished`: a plan as it is, within a budget. Nothing where the data cannot live
// so.
struct placer {
  std::function<std::optional<placed_plan>(memory_plan, byte_count budget)> decided;
  std::function<std::optional<placed_plan>(memory_plan, byte_count budget)> finished;
};

// Simulated time of the `iterations`th iteration.
nanoseconds simulated_time(const problem& p, const execution_plan& steps, int iterations);
// The same, and what its copies cost the operators beside them (copy_price).
nanoseconds time_with_copy_price(const problem& p, const execution_plan& steps, int iterations);

}  // namespace um
