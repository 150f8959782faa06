#include "schedule/transfers.hpp"

#include <algorithm>

#include "schedule/calendar.hpp"

namespace um {

transfer_placing::transfer_placing(const forecaster& costs, const use_table& uses, std::span<const gap> gaps,
                                   const allowance& late)
    : costs_(costs), uses_(uses), gaps_(gaps), late_(late), starts_(uses.order.size() + 1, 0) {
  for (position at = 0; at < uses.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    starts_[i + 1] = starts_[i] + costs.time_of(at);
  }
}

nanoseconds transfer_placing::time_of_copy(std::uint32_t x, lane where) const {
  const nanoseconds copy = costs_.time_of_copy(uses_.parts[gaps_[x].part].bytes, where);
  return copy + copy / 100 * late_.percent + late_.each;
}

void transfer_placing::place(std::span<const swapped_gap> swapped, std::vector<decision>& decisions) const {
  const auto start_of = [&](position at) { return starts_[static_cast<std::size_t>(at)]; };
  std::vector<swapped_gap> out, in;
  for (const swapped_gap& x : swapped) {
    const gap& e = gaps_[x.which];
    decisions[x.which] = {choice::swap, e.last, e.next};
    if (e.next < uses_.end()) in.push_back(x);
    if (e.last >= 0 && !e.at_home) out.push_back(x);
  }
  std::ranges::stable_sort(in, std::ranges::greater{},
                           [&](const swapped_gap& x) { return gaps_[x.which].next; });
  calendar to_device, to_host;
  for (const auto& [x, in_time] : in) {
    const nanoseconds begin = to_device.take_late(start_of(gaps_[x].next), time_of_copy(x, lane::to_device));
    if (in_time) continue;
    const auto after = std::ranges::upper_bound(starts_, std::max<nanoseconds>(begin, 0));
    const auto back = static_cast<position>(after - starts_.begin()) - 1;
    decisions[x].back = std::clamp(back, gaps_[x].last + 1, std::max(gaps_[x].next, gaps_[x].last + 1));
  }
  // A copy begins behind the last write, whoever reads meanwhile.
  std::ranges::stable_sort(out, {}, [&](const swapped_gap& x) { return gaps_[x.which].last; });
  for (const auto& [x, in_time] : out) {
    const nanoseconds copy = time_of_copy(x, lane::to_host);
    const nanoseconds end = to_host.take_early(start_of(gaps_[x].producer + 1), copy) + copy;
    if (in_time) continue;
    const auto after = static_cast<position>(std::ranges::lower_bound(starts_, end) - starts_.begin());
    decisions[x].leave = std::clamp(after - 1, gaps_[x].last, std::max(gaps_[x].last, decisions[x].back - 1));
  }
}

void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     const std::vector<bool>& in_time, std::vector<decision>& decisions) {
  std::vector<swapped_gap> swapped;
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    if (decisions[x].what == choice::swap) swapped.push_back({x, in_time[x]});
  }
  transfer_placing(costs, uses, gaps).place(swapped, decisions);
}

}  // namespace um
