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

}  // namespace um
