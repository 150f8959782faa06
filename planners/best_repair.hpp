// From decisions to a plan that fits: placed, and decided again for what placing showed.
#pragma once

#include "planners/best_place.hpp"
#include "planners/best_search.hpp"

namespace um {

struct repair_limits {
  int placings = 0;  // how often a plan is placed at most
  effort by;         // of deciding again
};

// A plan of these decisions, which were made for `rung` bytes, that needs no more than `budget` >= `rung`.
// Where packing needs more than that, decides for as much less than `rung`. Nothing where that does not
// succeed, or takes as long as `to_beat`.
std::optional<placed_plan> place_or_repair(search_space& of, const placer& place, solution decided,
                                           byte_count rung, byte_count budget, nanoseconds to_beat,
                                           const repair_limits& most);

}  // namespace um
