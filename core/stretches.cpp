#include "core/stretches.hpp"

#include <array>

namespace um {

stretch_cut cut_into_stretches(std::span<const step> steps) {
  stretch_cut order;
  order.is_awaited.resize(steps.size(), false);
  std::array<last_steps, lane_count> known{no_steps, no_steps, no_steps};
  for (const step& s : steps) {
    last_steps& waited = known[static_cast<std::size_t>(s.in_lane)];
    last_steps after = no_steps;
    for (std::size_t other = 0; other < lane_count; ++other) {
      if (s.waits_for[other] <= waited[other]) continue;
      after[other] = waited[other] = s.waits_for[other];
      order.is_awaited[static_cast<std::size_t>(after[other])] = true;
    }
    order.waits_for.push_back(after);
  }
  bool begins = true;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    if (steps[i].in_lane != lane::compute) continue;
    if (begins || order.waits_for[i] != no_steps) order.stretches.push_back({i, i});
    order.stretches.back().last = i;
    begins = order.is_awaited[i];
  }
  return order;
}

}  // namespace um
