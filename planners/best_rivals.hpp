// Plans of other strategies that compete with those of `best`, so that `best` is not slower.
#pragma once

#include <optional>
#include <span>

#include "planners/best_place.hpp"

namespace um {

// The fastest plan of `rivals`, by time including copy_price(). Rivals plan for the budget and, if their data
// takes more once it is placed, for somewhat less. Returns nothing if no plan takes less than `time_to_beat`.
// `same_bits`: asks only strategies whose results have the same bits.
std::optional<placed_plan> best_rival(const problem& p, const placer& place, std::span<const strategy> rivals,
                                      bool same_bits, nanoseconds time_to_beat);

// The same for plans that rivals make for any of `budgets`, the largest first. A plan counts if it fits the
// problem's budget. With more budgets the result is never slower.
std::optional<placed_plan> best_rival_of_budgets(const problem& p, const placer& place,
                                                 std::span<const strategy> rivals, bool same_bits,
                                                 std::span<const byte_count> budgets,
                                                 nanoseconds time_to_beat);

}  // namespace um
