// Finds the best plan of a tiny network. The search follows a fixed ladder of budgets upwards, as far as the
// budget asked for. Its work at a rung depends on smaller rungs alone, and it keeps the fastest plan. So with
// more memory the plan is never slower, from rung to rung.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "planners/best_ladder.hpp"
#include "planners/best_place.hpp"
#include "planners/best_splits.hpp"

namespace um {

// The search ends at a plan within this share of the operators' time: no measurement distinguishes faster
// ones.
constexpr nanoseconds near_optimal_permille = 1;

// The fastest plan of other strategies over all these budgets, the largest first; nothing if none is faster
// than `time_to_beat`.
using rival_planner =
    std::function<std::optional<placed_plan>(std::span<const byte_count> budgets, nanoseconds time_to_beat)>;

// Whether the network has few operators and its splits have few computes: then each rung can be searched.
bool is_tiny(const problem& p);

// `rungs`: the whole ladder. `splits` must not depend on the budget. `work`: limit of search_space::work for
// all searches; placing and polishing take about as long again.
std::optional<placed_plan> plan_small_network(const problem& p, const placer& place,
                                              std::span<const batch_split> splits,
                                              std::span<const rung> rungs, const rival_planner& rivals,
                                              std::uint64_t work);

}  // namespace um
