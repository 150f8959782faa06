#include "schedule/transfers.hpp"

#include <algorithm>

#include "schedule/calendar.hpp"

namespace um {

transfer_placer::transfer_placer(const forecaster& costs, const use_table& uses, std::span<const gap> gaps,
                                 const copy_slack& late)
    : costs_(costs), uses_(uses), gaps_(gaps), slack_(late), start_times_(uses.order.size() + 1, 0) {
  for (position at = 0; at < uses.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    start_times_[i + 1] = start_times_[i] + costs.compute_time(at);
  }
}

nanoseconds transfer_placer::copy_time_with_slack(std::uint32_t x, lane where) const {
  const nanoseconds copy = costs_.copy_time(uses_.parts[gaps_[x].part].bytes, where);
  return copy + copy / 100 * slack_.percent + slack_.fixed;
}

void transfer_placer::place(std::span<const swapped_gap> swapped, std::vector<decision>& decisions) const {
  const auto start_of = [&](position at) { return start_times_[static_cast<std::size_t>(at)]; };
  std::vector<swapped_gap> out, in;
  for (const swapped_gap& x : swapped) {
    const gap& e = gaps_[x.gap];
    decisions[x.gap] = {gap_choice::swap, e.last_use, e.next_use};
    if (e.next_use < uses_.end()) in.push_back(x);
    if (e.last_use >= 0 && !e.has_host_copy) out.push_back(x);
  }
  std::ranges::stable_sort(in, std::ranges::greater{},
                           [&](const swapped_gap& x) { return gaps_[x.gap].next_use; });
  calendar to_device, to_host;
  for (const auto& [x, in_time] : in) {
    const nanoseconds begin =
        to_device.book_latest(start_of(gaps_[x].next_use), copy_time_with_slack(x, lane::to_device));
    if (in_time) continue;
    const auto after = std::ranges::upper_bound(start_times_, std::max<nanoseconds>(begin, 0));
    const auto back = static_cast<position>(after - start_times_.begin()) - 1;
    decisions[x].return_before =
        std::clamp(back, gaps_[x].last_use + 1, std::max(gaps_[x].next_use, gaps_[x].last_use + 1));
  }
  // A copy can begin after the last write; later reads do not delay it.
  std::ranges::stable_sort(out, {}, [&](const swapped_gap& x) { return gaps_[x.gap].last_use; });
  for (const auto& [x, in_time] : out) {
    const nanoseconds copy = copy_time_with_slack(x, lane::to_host);
    const nanoseconds end = to_host.book_earliest(start_of(gaps_[x].producer + 1), copy) + copy;
    if (in_time) continue;
    const auto after =
        static_cast<position>(std::ranges::lower_bound(start_times_, end) - start_times_.begin());
    decisions[x].leave_after =
        std::clamp(after - 1, gaps_[x].last_use, std::max(gaps_[x].last_use, decisions[x].return_before - 1));
  }
}

void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     const std::vector<bool>& in_time, std::vector<decision>& decisions) {
  std::vector<swapped_gap> swapped;
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    if (decisions[x].choice == gap_choice::swap) swapped.push_back({x, in_time[x]});
  }
  transfer_placer(costs, uses, gaps).place(swapped, decisions);
}

}  // namespace um
