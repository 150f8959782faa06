// A lower bound on the time of plans that compute whole operators in one order.
#pragma once

#include <limits>
#include <vector>

#include "core/planner.hpp"
#include "schedule/bounds/whole_model.hpp"

namespace um {

inline constexpr nanoseconds no_bound =
    std::numeric_limits<nanoseconds>::max();  // value of a bound if no plan of the class exists

// Initial prices: of a byte between the passes, and of a nanosecond of each copy lane.
struct start_prices {
  double byte = 0, out = 0, in = 0;  // prices of memory and of copies each way
};

// Lower bound for plans that compute every operator whole, the first time in `order`, and keep every tensor
// on the device or staged. It bounds the optimum of a linear program over gaps and instants by its
// Lagrangian: any prices give a bound, and a subgradient method raises it with a limited amount of work
// (Held, Wolfe and Crowder, 1974). README.md has the formulas. Returns no_bound if the operands of one
// operator, or values that can neither leave nor be recomputed, exceed the budget. Ignores workspaces.
nanoseconds whole_operator_bound(const problem& p, const std::vector<compute>& order, allowed_moves allowed,
                                 const start_prices& start);

}  // namespace um
