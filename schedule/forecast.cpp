#include "schedule/forecast.hpp"

#include <algorithm>

namespace um {

prediction forecaster::forecast_memory(std::span<const event> events, const std::vector<bool>& staged) {
  prediction found;
  found.peak = residency_.replay(events, staged);
  const auto live = residency_.live_bytes();
  found.peak_event = static_cast<std::uint32_t>(std::ranges::find(live, found.peak) - live.begin());
  return found;
}

prediction forecaster::forecast(std::span<const event> events, const std::vector<bool>& staged) {
  prediction found = forecast_memory(events, staged);
  add_time(events, found);
  return found;
}

void forecaster::add_time(std::span<const event> events, prediction& found) {
  static_cast<lane_totals&>(found) = lanes_.simulate(events, residency_, found.peak);
}

}  // namespace um
