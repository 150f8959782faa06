// Decisions of one order of computes for a fixed ladder of budgets.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "planners/best_search.hpp"

namespace um {

// A budget that is decided for, whatever budget was asked for. `decided`: from the start, not only from what
// was found for its neighbours.
struct rung {
  byte_count budget = 0;
  bool decided = false;
};

// The largest first, in steps of five percent and more.
std::vector<rung> ladder_of(byte_count footprint);

// Goes down the ladder, from everything kept, as far as decisions fit; then up again, each time from the
// better of what was found on the way down and at the rung below. So no rung has more time than one below it.
// `best_so_far`: the time of other orders at each rung. Rungs where it is no more than that of the operators
// are left out, and so are those that follow several where this order is clearly slower. `work`: as
// search_space::work, for all rungs.
std::vector<std::optional<solution>> climb(search_space& of, std::span<const rung> rungs,
                                           std::span<const nanoseconds> best_so_far, std::uint64_t work);

}  // namespace um
