// Plans of other strategies as candidates of `best`, so that it is not slower than they are.
#pragma once

#include <optional>
#include <span>

#include "planners/best_place.hpp"

namespace um {

// The least priced time of the plans of `rivals` for the budget and, where their data takes more when it
// is placed, for somewhat less; nothing where none takes less than `to_beat`. `same_bits`: only of strategies
// that keep the bits.
std::optional<placed_plan> best_rival(const problem& p, const placer& place, std::span<const strategy> rivals,
                                      bool same_bits, nanoseconds to_beat);

}  // namespace um
