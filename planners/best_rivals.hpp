// Plans of other strategies that compete with those of `best`, so that `best` is not slower.
#pragma once

#include <optional>
#include <span>

#include "planners/best_place.hpp"

namespace um {

// A strategy and its knobs.
struct rival {
  const strategy* by = nullptr;
  knob_values knobs;
};
struct rival_plan {
  placed_plan placed;
  rival made_by;
};

// The fastest plan of `rivals`, by time including copy_price(). Rivals plan for the budget and, if their data
// takes more once it is placed, for somewhat less. Returns nothing if no plan takes less than `time_to_beat`.
// `same_bits`: asks only strategies whose results have the same bits.
std::optional<rival_plan> best_rival(const problem& p, const placer& place, std::span<const strategy> rivals,
                                     bool same_bits, nanoseconds time_to_beat);
// The fastest plan that the rival makes for smaller and smaller budgets, until one gives no faster plan: most
// planners are not monotonic. Returns nothing if no plan takes less than `time_to_beat`.
std::optional<placed_plan> plan_for_smaller_budgets(const problem& p, const placer& place, const rival& q,
                                                    nanoseconds time_to_beat);

// As best_rival(), but rivals plan for each of `budgets`, the largest first. A plan counts if it fits the
// problem's budget. With more budgets the result is never slower.
std::optional<placed_plan> best_rival_of_budgets(const problem& p, const placer& place,
                                                 std::span<const strategy> rivals, bool same_bits,
                                                 std::span<const byte_count> budgets,
                                                 nanoseconds time_to_beat);

}  // namespace um
