// From one way to send the batch through to a plan that fits: decide, place, and decide again for what
// placing showed.
#pragma once

#include "planners/best_place.hpp"
#include "planners/best_search.hpp"
#include "planners/best_splits.hpp"

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
  byte_count aim = 0;      // what `best` was decided for
  std::uint64_t work = 0;  // spent
};

// Decides for `aim`; where the placed plan needs more than the budget, for as much less; where it needs less,
// for somewhat more; the fastest that fits counts.
repaired decide_and_place(const problem& p, const placer& place, const batch_split& split, const target& at,
                          const effort_limits& most);

}  // namespace um
