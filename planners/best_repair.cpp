#include "planners/best_repair.hpp"

#include <algorithm>

namespace um {

std::optional<placed_plan> place_or_repair(search_space& of, const placer& place, solution decided,
                                           byte_count rung, byte_count budget, nanoseconds to_beat,
                                           const repair_limits& most) {
  byte_count aim = rung;
  for (int i = 0; i < most.placings; ++i) {
    if (i > 0) decided = decide_again(of, aim, most.by, decided);
    if (decided.is.over > 0 || decided.is.forecast.time >= to_beat) return std::nullopt;
    std::optional<placed_plan> placed = place.decided(of.plan(decided.treatments));
    if (placed && placed->need <= budget) return placed;
    // Where the data cannot live so, with other decisions it may.
    const byte_count beyond = placed ? (placed->need - rung) * 3 / 4 + rung / 1000 : aim / 20;
    aim -= std::min(aim, beyond);
  }
  return std::nullopt;
}

}  // namespace um
