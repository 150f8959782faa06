#include "schedule/transfers.hpp"

#include <algorithm>

#include "schedule/calendar.hpp"

namespace um {

void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     const std::vector<bool>& in_time, std::vector<decision>& decisions) {
  std::vector<nanoseconds> starts(uses.order.size() + 1, 0);
  for (position at = 0; at < uses.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    starts[i + 1] = starts[i] + costs.time_of(at);
  }
  std::vector<std::uint32_t> swapped;
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    if (decisions[x].what != choice::swap) continue;
    decisions[x].leave = gaps[x].last;
    decisions[x].back = gaps[x].next;
    if (gaps[x].next < uses.end()) swapped.push_back(x);
  }
  std::ranges::stable_sort(swapped, std::ranges::greater{}, [&](std::uint32_t x) { return gaps[x].next; });
  calendar link;
  for (const std::uint32_t x : swapped) {
    const nanoseconds copy = costs.time_of_copy(uses.parts[gaps[x].part].bytes, lane::to_device);
    const nanoseconds begin = link.take_late(starts[static_cast<std::size_t>(gaps[x].next)], copy);
    if (in_time[x]) continue;
    const auto after = std::ranges::upper_bound(starts, std::max<nanoseconds>(begin, 0));
    const auto back = static_cast<position>(after - starts.begin()) - 1;
    decisions[x].back = std::clamp(back, gaps[x].last + 1, std::max(gaps[x].next, gaps[x].last + 1));
  }
}

}  // namespace um
