// From an order of computes to a plan that fits: decide, place, and decide again for what placing showed.
#pragma once

#include "planners/best_place.hpp"
#include "planners/best_search.hpp"

namespace um {

// Tries for each class of gaps: as many as `work_for_tries` allows, within limits. `placings`: how often a
// plan is placed at most.
struct effort_limits {
  std::size_t least_tries = 0, most_tries = 0;
  int placings = 0;
  std::uint64_t work = 0;
};
effort_limits quick_effort(std::uint64_t work);
effort_limits full_effort(std::uint64_t work);

struct target {
  byte_count budget = 0;
  byte_count aim = 0;       // what is decided for at first
  nanoseconds to_beat = 0;  // plans that take as long are of no use
};

struct repaired {
  std::optional<placed_plan> best;
  byte_count aim = 0;  // what `best` was decided for
};

// Decides for `aim`; where the placed plan needs more than the budget, for as much less; where it needs less,
// for somewhat more; the fastest that fits counts.
repaired decide_and_place(search_space& of, const placer& place, const target& at, const effort_limits& most);

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
