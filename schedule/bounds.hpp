// Times below which no plan of a class can come, whatever it decides.
#pragma once

#include <limits>

#include "core/planner.hpp"

namespace um {

// Of one iteration. `compute`: of every plan, the operators one after the other. The others hold for plans
// that end the forward pass of the whole batch before any backward operator, with any slices within a pass:
// of what the forward pass makes and the backward pass reads only the budget can be on the device between
// the two; the rest has been copied out by then and must come back, or must be computed again. `swap`: plans
// that compute nothing twice; `recompute`: plans that move nothing; `both`: all of them. A network without a
// backward pass leaves `compute`. no_bound where no plan of the class exists.
inline constexpr nanoseconds no_bound = std::numeric_limits<nanoseconds>::max();
struct time_bounds {
  nanoseconds compute = 0, swap = 0, recompute = 0, both = 0;
};

// The optimum of a linear program, solved by generating its columns; never above it.
time_bounds bounds_of(const problem& p);

}  // namespace um
