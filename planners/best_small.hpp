// The best plan of a network of few operators. The search goes up a fixed ladder of budgets, as far as the
// budget asked for. What it does at a rung depends on smaller rungs alone, and it keeps the fastest plan, so
// more memory is never slower from rung to rung. Not so where the computes are too many to search each rung.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "planners/best_ladder.hpp"
#include "planners/best_place.hpp"
#include "planners/best_splits.hpp"

namespace um {

// A plan within one in a thousand of the operators' own time ends the search: no measurement tells less
// apart.
constexpr nanoseconds close_permille = 1;

// The best plan of other strategies for a budget, if one takes less time.
using rival_planner = std::function<std::optional<placed_plan>(byte_count budget, nanoseconds to_beat)>;

// `rungs`: all of the ladder. `splits` must not depend on the budget. `work`: limit of search_space::work for
// all decisions; placing and polishing take about as much again.
std::optional<placed_plan> plan_by_rungs(const problem& p, const placer& place,
                                         std::span<const batch_split> splits, std::span<const rung> rungs,
                                         const rival_planner& rival, std::uint64_t work);

}  // namespace um
