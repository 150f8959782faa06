// Turns an order of computes into a plan that fits: decides, places, and decides again if packing needs more
// than the budget, with a lower limit or with bytes reserved where it does.
#pragma once

#include "planners/best_polish.hpp"
#include "planners/best_search.hpp"

namespace um {

// Limits of a search: tries per gap class, number of plans placed, and work.
struct effort_limits {
  std::size_t min_tries_per_gap_class = 0, max_tries_per_gap_class = 0;
  int max_placements = 0;
  std::uint64_t max_work = 0;
};
effort_limits quick_effort(std::uint64_t max_work);
effort_limits full_effort(std::uint64_t max_work);

struct search_goal {
  byte_count budget = 0;
  byte_count live_limit = 0;     // limit of live bytes for the first decisions
  nanoseconds time_to_beat = 0;  // only faster plans are returned
};

struct repair_result {
  std::optional<placed_decisions> best;
  byte_count live_limit = 0;  // limit of live bytes from which to search `best` further
  bool is_cut_off = false;    // the work was spent before any decisions fitted
  bool is_promising = true;   // more work may give a faster plan
};

// Decides with at most `live_limit` live bytes, then with fewer if the placed plan needs more than the
// budget, and with more if it needs less. Then starts from the first decisions once more, with fewer live
// bytes only where packing is crowded. Returns the fastest plan that fits.
repair_result decide_and_place(search_space& of, const placer& place, const search_goal& at,
                               const effort_limits& most);

struct repair_limits {
  int max_placements = 0;  // maximum number of plans placed
  effort per_decision;     // of each new decision
};

// Places decisions made for at most `rung` live bytes in a budget of at least `rung` bytes. If packing needs
// more, decides again with a lower limit. Returns nothing if no plan fits and is faster than `time_to_beat`.
std::optional<placed_plan> place_or_repair(search_space& of, const placer& place, solution decided,
                                           byte_count rung, byte_count budget, nanoseconds time_to_beat,
                                           const repair_limits& most);

}  // namespace um
