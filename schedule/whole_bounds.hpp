// What plans that compute whole operators in one order cannot beat.
#pragma once

#include <limits>
#include <vector>

#include "core/planner.hpp"
#include "schedule/whole_model.hpp"

namespace um {

inline constexpr nanoseconds no_bound = std::numeric_limits<nanoseconds>::max();  // there is no such plan

// What is worth how much, to begin with: a byte between the passes, a nanosecond of each copy lane.
struct first_prices {
  double byte = 0, out = 0, in = 0;
};

// A time that no plan beats which computes every operator whole, first in `order`, and keeps what it has on
// the device or staged: at every instant what is there, the operands at hand included, keeps to the budget
// (workspaces apart); what leaves has been copied out by then, what returns is copied in before its use, on
// lanes as wide as the link; what is given up without a copy is computed again, with what that needs and is
// dead. A linear program over gaps and instants, bounded by its Lagrangian: any prices of bytes at instants
// and of lanes give a bound; a subgradient method makes them better for as long as so much work allows
// (Held, Wolfe, Crowder 1974). no_bound where one operator's operands, or what can neither leave nor be made
// again, exceed the budget.
nanoseconds whole_bound(const problem& p, const std::vector<compute>& order, allowed what,
                        const first_prices& start);

}  // namespace um
