// The best plan of a network of few operators: for each budget the best of a fixed ladder of budgets at or
// below it. So more memory is never slower.
#pragma once

#include <cstdint>
#include <optional>

#include "planners/best_ladder.hpp"
#include "planners/best_place.hpp"
#include "planners/best_splits.hpp"

namespace um {

// `rungs`: all of the ladder; the search for them does not depend on the problem's budget. `work`: limit of
// search_space::work.
std::optional<placed_plan> plan_by_ladder(const problem& p, const placer& place,
                                          std::span<const batch_split> splits, std::span<const rung> rungs,
                                          std::uint64_t work);

}  // namespace um
