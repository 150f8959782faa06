#include "schedule/transfers.hpp"

#include <algorithm>
#include <limits>

#include "schedule/calendar.hpp"

namespace um {

transfer_placer::transfer_placer(const forecaster& costs, const use_table& uses, std::span<const gap> gaps,
                                 const copy_slack& late)
    : uses_(uses), gaps_(gaps), start_times_(uses.order.size() + 1, 0) {
  for (position at = 0; at < uses.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    start_times_[i + 1] = start_times_[i] + costs.compute_time(at);
  }
  const auto time_of = [&](const gap& e, lane where) {
    const nanoseconds alone = costs.copy_time(uses.parts[e.part].bytes, where);
    return alone + alone / 100 * late.percent + late.fixed;
  };
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    const gap& e = gaps[x];
    if (e.next_use < uses.end()) to_device_.push_back({x, time_of(e, lane::to_device)});
    if (e.last_use >= 0 && !e.has_host_copy) to_host_.push_back({x, time_of(e, lane::to_host)});
  }
  std::ranges::stable_sort(to_device_, std::ranges::greater{},
                           [&](const gap_copy& c) { return gaps[c.gap].next_use; });
  std::ranges::stable_sort(to_host_, {}, [&](const gap_copy& c) { return gaps[c.gap].last_use; });
}

void transfer_placer::place(const std::vector<swap_timing>& timing, std::vector<decision>& decisions) const {
  const auto start_of = [&](position at) { return start_times_[static_cast<std::size_t>(at)]; };
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    if (timing[x] != swap_timing::none)
      decisions[x] = {gap_choice::swap, gaps_[x].last_use, gaps_[x].next_use};
  }
  // Deadlines come the latest first, so each copy ends where the one before it begins, or earlier.
  nanoseconds begin = std::numeric_limits<nanoseconds>::max();
  for (const auto& [x, time] : to_device_) {
    if (timing[x] == swap_timing::none) continue;
    const gap& e = gaps_[x];
    begin = std::min(begin, start_of(e.next_use)) - time;
    if (timing[x] == swap_timing::just_in_time) continue;
    const auto after = std::ranges::upper_bound(start_times_, std::max<nanoseconds>(begin, 0));
    const auto back = static_cast<position>(after - start_times_.begin()) - 1;
    decisions[x].return_before = std::clamp(back, e.last_use + 1, std::max(e.next_use, e.last_use + 1));
  }
  // A copy can begin after the last write; later reads do not delay it.
  calendar link_to_host;
  for (const auto& [x, time] : to_host_) {
    if (timing[x] == swap_timing::none) continue;
    const gap& e = gaps_[x];
    const nanoseconds end = link_to_host.book_earliest(start_of(e.producer + 1), time) + time;
    if (timing[x] == swap_timing::just_in_time) continue;
    const auto after =
        static_cast<position>(std::ranges::lower_bound(start_times_, end) - start_times_.begin());
    decisions[x].leave_after =
        std::clamp(after - 1, e.last_use, std::max(e.last_use, decisions[x].return_before - 1));
  }
}

void place_transfers(const forecaster& costs, const use_table& uses, const std::vector<gap>& gaps,
                     std::vector<decision>& decisions) {
  std::vector<swap_timing> timing(gaps.size(), swap_timing::none);
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    if (decisions[x].choice == gap_choice::swap) timing[x] = swap_timing::early;
  }
  transfer_placer(costs, uses, gaps).place(timing, decisions);
}

}  // namespace um
