// What `best` and `best_managed` share (docs/method/best.md): candidates, decide, place, repair.
#pragma once

#include <span>
#include <string>

#include "planners/best_place.hpp"

namespace um {

struct search_request {
  std::string name;                  // the strategy that error messages name
  bool and_without = false;          // also search plans that move nothing
  std::span<const strategy> rivals;  // strategies whose plans it must not be slower than
};

// The plan of the least priced time: of the plans decided for a ladder of budgets, which does not
// depend on the budget asked for, for that budget itself, and of the rivals' plans. Reads knobs `bits`,
// `copies` and `copy_us`. Throws infeasible where there is none.
memory_plan plan_best(const problem& p, const placer& place, const search_request& by);

}  // namespace um
