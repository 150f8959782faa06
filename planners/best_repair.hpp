// From an order of computes to a plan that fits: decides, places, and decides again for less where packing
// needs more.
#pragma once

#include "planners/best_polish.hpp"
#include "planners/best_search.hpp"

namespace um {

// Limits of a search: tries for each class of gaps, how often a plan is placed, and work.
struct effort_limits {
  std::size_t least_tries = 0, most_tries = 0;
  int placings = 0;
  std::uint64_t work = 0;
};
effort_limits quick_effort(std::uint64_t work);
effort_limits full_effort(std::uint64_t work);

struct target {
  byte_count budget = 0;
  byte_count aim = 0;       // the memory that is decided for at first
  nanoseconds to_beat = 0;  // slower plans are of no use
};

struct repaired {
  std::optional<placed_decisions> best;
  byte_count aim = 0;       // the memory that `best` was decided for
  bool is_cut_off = false;  // the work was spent before the first decisions fitted
};

// Decides for `aim`, then for less where the placed plan needs more than the budget, and for more where it
// needs less. Returns the fastest plan that fits.
repaired decide_and_place(search_space& of, const placer& place, const target& at, const effort_limits& most);

struct repair_limits {
  int placings = 0;  // how often a plan is placed at most
  effort by;         // of deciding again
};

// Places decisions that were made for `rung` bytes in `budget` >= `rung` bytes. Where packing needs more,
// decides again for as much less than `rung`. Nothing if that fails or is no faster than `to_beat`.
std::optional<placed_plan> place_or_repair(search_space& of, const placer& place, solution decided,
                                           byte_count rung, byte_count budget, nanoseconds to_beat,
                                           const repair_limits& most);

}  // namespace um
