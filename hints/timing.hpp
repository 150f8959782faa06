// When within a plan data moves: evictions as soon as they can, fetches as late as the link allows.
#pragma once

#include "core/planner.hpp"

namespace um {

// Moves every eviction and discard of managed memory forward to right behind the last use before it, then
// every prefetch to where it has to begin for all of them to be there in time, were the link `slack_percent`
// slower than the machine says. No more than `budget` holds at any action as far as it held before.
memory_plan well_timed(const problem& p, const memory_plan& plan, packer how, std::int64_t slack_percent);

// The steady iteration of a plan in the simulator. Throws infeasible as lower() does.
nanoseconds simulated_time(const problem& p, const memory_plan& plan, packer how);

}  // namespace um
