// What `best` and `best_managed` share.
#pragma once

#include <functional>
#include <optional>

#include "core/lower.hpp"
#include "core/planner.hpp"

namespace um {

// What a plan comes to where its data is to live.
struct trial {
  memory_plan plan;
  byte_count need = 0;   // of device memory
  nanoseconds time = 0;  // of an iteration, where that is within the budget
};
// Nothing where the data cannot live so.
using trying = std::function<std::optional<trial>(memory_plan)>;

// Of an iteration, the `iterations`th.
nanoseconds simulated_time(const problem& p, const execution_plan& steps, int iterations);

// The plan that takes the least time of those that a search decides, and, with `and_without`, of those that
// one decides that moves nothing. Reads knobs `bits`, `copies` and `copy_us`. Throws infeasible, in the name
// of `strategy`.
memory_plan plan_best(const problem& p, const trying& as, bool and_without, const std::string& strategy);

}  // namespace um
