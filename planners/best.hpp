// What `best` and `best_managed` share.
#pragma once

#include "core/planner.hpp"

namespace um {

// The best plan, or the best of those that move nothing. Reads knobs `bits` and `copies`. Throws infeasible.
memory_plan plan_best(const problem& p, bool moves);

}  // namespace um
