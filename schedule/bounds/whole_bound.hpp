// A lower bound on the time of plans that compute whole operators in one order.
#pragma once

#include <limits>
#include <vector>

#include "core/planner.hpp"
#include "schedule/bounds/whole_model.hpp"

namespace um {

inline constexpr nanoseconds no_bound = std::numeric_limits<nanoseconds>::max();  // the class has no plan

// Prices to begin with: of a byte between the passes, of a nanosecond of each copy lane.
struct first_prices {
  double byte = 0, out = 0, in = 0;
};

// Of plans that compute every operator whole, first in `order`, and keep everything on the device or staged.
// The optimum of a linear program over gaps and instants is bounded by its Lagrangian: any prices of bytes at
// instants and of lanes give a bound; a subgradient method raises it for a limited amount of work (Held,
// Wolfe and Crowder, 1974). README.md has the formulas. no_bound where the operands of one operator, or what
// can neither leave nor be computed again, exceed the budget. Workspaces are not counted.
nanoseconds whole_bound(const problem& p, const std::vector<compute>& order, allowed what,
                        const first_prices& start);

}  // namespace um
