#include "schedule/transfers.hpp"

#include <algorithm>

#include "schedule/calendar.hpp"

namespace um {

void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     const std::vector<bool>& in_time, std::vector<decision>& decisions,
                     const allowance& late) {
  std::vector<nanoseconds> starts(uses.order.size() + 1, 0);
  for (position at = 0; at < uses.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    starts[i + 1] = starts[i] + costs.time_of(at);
  }
  const auto start_of = [&](position at) { return starts[static_cast<std::size_t>(at)]; };
  const auto time_of_copy = [&](std::uint32_t x, lane where) {
    const nanoseconds copy = costs.time_of_copy(uses.parts[gaps[x].part].bytes, where);
    return copy + copy / 100 * late.percent + late.each;
  };
  std::vector<std::uint32_t> out, in;
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    if (decisions[x].what != choice::swap) continue;
    decisions[x].leave = gaps[x].last;
    decisions[x].back = gaps[x].next;
    if (gaps[x].next < uses.end()) in.push_back(x);
    if (gaps[x].last >= 0 && !gaps[x].at_home) out.push_back(x);
  }
  std::ranges::stable_sort(in, std::ranges::greater{}, [&](std::uint32_t x) { return gaps[x].next; });
  calendar to_device, to_host;
  for (const std::uint32_t x : in) {
    const nanoseconds copy = time_of_copy(x, lane::to_device);
    const nanoseconds begin = to_device.take_late(start_of(gaps[x].next), copy);
    if (in_time[x]) continue;
    const auto after = std::ranges::upper_bound(starts, std::max<nanoseconds>(begin, 0));
    const auto back = static_cast<position>(after - starts.begin()) - 1;
    decisions[x].back = std::clamp(back, gaps[x].last + 1, std::max(gaps[x].next, gaps[x].last + 1));
  }
  // A copy begins behind the last write, whoever reads meanwhile.
  std::ranges::stable_sort(out, {}, [&](std::uint32_t x) { return gaps[x].last; });
  for (const std::uint32_t x : out) {
    const nanoseconds copy = time_of_copy(x, lane::to_host);
    const nanoseconds end = to_host.take_early(start_of(gaps[x].producer + 1), copy) + copy;
    if (in_time[x]) continue;
    const auto after = static_cast<position>(std::ranges::lower_bound(starts, end) - starts.begin());
    decisions[x].leave = std::clamp(after - 1, gaps[x].last, std::max(gaps[x].last, decisions[x].back - 1));
  }
}

}  // namespace um
