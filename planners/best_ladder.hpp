// Decisions of one order of computes for a fixed ladder of budgets.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planners/best_search.hpp"

namespace um {

// A budget of the ladder, whatever budget was asked for. `decided`: searched from the start, not only from
// solutions of its neighbours.
struct rung {
  byte_count budget = 0;
  bool decided = false;
};

// The largest first, in steps of five percent and more. `fine`: in steps of 0.05 of the ratio.
std::vector<rung> ladder_of(byte_count footprint, bool fine);

// Goes down the ladder, from everything kept, as long as something fits; then up again, each time from the
// better of the solutions found on the way down and at the rung below. So no rung is slower than one below
// it. `best_so_far`: times of other orders at each rung. Skips rungs where that is the operators' own time,
// and stops going down after several rungs where this order is clearly slower. `most`: limits of a rung's
// tries and of all work.
std::vector<std::optional<solution>> climb(search_space& of, std::span<const rung> rungs,
                                           std::span<const nanoseconds> best_so_far, const effort& most);
// From the least rung up: decides anew for each, or improves the better of its solution and the one below,
// where that is close to `best_so_far`.
void climb_again(search_space& of, std::span<const rung> rungs, std::span<const nanoseconds> best_so_far,
                 const effort& most, std::vector<std::optional<solution>>& found);

}  // namespace um
