#include "schedule/forecast.hpp"

#include <algorithm>

namespace um {

prediction forecaster::memory_of(std::span<const event> events, const std::vector<bool>& staged) {
  prediction found;
  found.peak = stays_.follow(events, staged);
  const auto live = stays_.live();
  found.at = static_cast<std::uint32_t>(std::ranges::find(live, found.peak) - live.begin());
  return found;
}

prediction forecaster::of(std::span<const event> events, const std::vector<bool>& staged) {
  prediction found = memory_of(events, staged);
  add_time(events, found);
  return found;
}

void forecaster::add_time(std::span<const event> events, prediction& found) {
  static_cast<lane_totals&>(found) = lanes_.of(events, stays_, found.peak);
}

}  // namespace um
