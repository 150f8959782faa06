// Finds the best plan of a network of few operators. The search follows a fixed ladder of budgets upwards, as
// far as the budget asked for. Its work at a rung depends on smaller rungs alone, and it keeps the fastest
// plan. So with more memory the plan is never slower, from rung to rung. The exception are orders with too
// many computes to search each rung.
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

// The best plan of other strategies for a budget, or for any of several, the largest first; nothing if none
// is faster than `time_to_beat`.
struct rival_planners {
  std::function<std::optional<placed_plan>(byte_count budget, nanoseconds time_to_beat)> for_budget;
  std::function<std::optional<placed_plan>(std::span<const byte_count> budgets, nanoseconds time_to_beat)>
      for_budgets;
};

// `rungs`: the whole ladder. `splits` must not depend on the budget. `work`: limit of search_space::work for
// all searches; placing and polishing take about as long again.
std::optional<placed_plan> plan_small_network(const problem& p, const placer& place,
                                              std::span<const batch_split> splits,
                                              std::span<const rung> rungs, const rival_planners& rivals,
                                              std::uint64_t work);

}  // namespace um
