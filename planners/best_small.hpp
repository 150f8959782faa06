// The best plan of a network of few operators. For each rung of a fixed ladder of budgets the search finds
// one plan, whatever budget was asked for, and for the last three rungs within the budget another one. The
// answer is the fastest of these plans. So more memory is slower only where a plan for one of the three
// would have been the fastest.
#pragma once

#include <cstdint>
#include <optional>

#include "planners/best_ladder.hpp"
#include "planners/best_place.hpp"
#include "planners/best_splits.hpp"

namespace um {

// `rungs`: all of the ladder. `splits` must not depend on the budget. `work`: limit of search_space::work for
// all decisions; placing and polishing take about as much again.
std::optional<placed_plan> plan_by_rungs(const problem& p, const placer& place,
                                         std::span<const batch_split> splits, std::span<const rung> rungs,
                                         std::uint64_t work);

}  // namespace um
