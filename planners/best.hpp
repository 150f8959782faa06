// The search shared by `best` and `best_managed` (docs/method/best.md): generate candidate splits, decide,
// place, repair.
#pragma once

#include <span>
#include <string>

#include "planners/best_place.hpp"

namespace um {

struct search_options {
  std::string name;                  // the strategy that error messages name
  bool also_without_swaps = false;   // also search each split without swaps
  std::span<const strategy> rivals;  // strategies whose plans are candidates, too
};

// Returns the plan with the least time including copy_price(). Candidates are plans for a fixed ladder of
// budgets, plans for the exact budget, and the rivals' plans. Reads knobs `bits`, `copies` and `copy_us`.
// Throws infeasible if no plan fits.
memory_plan plan_best(const problem& p, const placer& place, const search_options& by);

}  // namespace um
