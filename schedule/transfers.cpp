#include "schedule/transfers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "schedule/calendar.hpp"

namespace um {

namespace {

constexpr std::uint32_t no_copy = ~std::uint32_t{0};
constexpr std::size_t word_bits = 64;

}  // namespace

void transfer_placer::ordered_copies::sort(std::size_t gaps, const auto& by) {
  std::ranges::stable_sort(copies_, {}, [&](const timed_gap_copy& c) { return by(c.gap); });
  rank_.assign(gaps, no_copy);
  for (std::size_t i = 0; i < copies_.size(); ++i) rank_[copies_[i].gap] = static_cast<std::uint32_t>(i);
  chosen_.assign(copies_.size() / word_bits + 1, 0);
}

void transfer_placer::ordered_copies::visit_in_order(std::span<const std::uint32_t> gaps, const auto& visit) {
  for (const std::uint32_t x : gaps) {
    if (rank_[x] != no_copy) chosen_[rank_[x] / word_bits] |= std::uint64_t{1} << rank_[x] % word_bits;
  }
  for (std::size_t w = 0; w < chosen_.size(); ++w) {
    for (std::uint64_t left = std::exchange(chosen_[w], 0); left != 0; left &= left - 1)
      visit(copies_[w * word_bits + static_cast<std::size_t>(std::countr_zero(left))]);
  }
}

transfer_placer::transfer_placer(const forecaster& costs, const use_table& uses, std::span<const gap> gaps,
                                 const copy_slack& slack)
    : uses_(uses), gaps_(gaps), start_times_(uses.order.size() + 1, 0) {
  for (position at = 0; at < uses.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    start_times_[i + 1] = start_times_[i] + costs.compute_time(at);
  }
  const auto time_of = [&](const gap& e, lane where) {
    const nanoseconds alone = costs.copy_time(uses.parts[e.part].bytes, where);
    return alone + alone / 100 * slack.percent_of_copy + slack.fixed;
  };
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    const gap& e = gaps[x];
    if (e.next_use < uses.end()) to_device_.add({x, time_of(e, lane::to_device)});
    if (e.last_use >= 0 && !e.has_host_copy) to_host_.add({x, time_of(e, lane::to_host)});
  }
  to_device_.sort(gaps.size(), [&](std::uint32_t x) { return -gaps[x].next_use; });
  to_host_.sort(gaps.size(), [&](std::uint32_t x) { return gaps[x].last_use; });
}

void transfer_placer::find_swapped_gaps(const std::vector<swap_timing>& timing) {
  swapped_gaps_.clear();
  // Most gaps are not swapped, so eight are looked at together.
  static_assert(sizeof(swap_timing) == 1 && swap_timing::none == swap_timing{});
  constexpr std::uint32_t gaps_per_word = sizeof(std::uint64_t);
  const auto count = static_cast<std::uint32_t>(gaps_.size());
  for (std::uint32_t x = 0; x < count; x += gaps_per_word) {
    std::uint64_t timings = 1;
    if (x + gaps_per_word <= count) std::memcpy(&timings, &timing[x], gaps_per_word);
    if (timings == 0) continue;
    for (std::uint32_t i = x; i < std::min(x + gaps_per_word, count); ++i) {
      if (timing[i] != swap_timing::none) swapped_gaps_.push_back(i);
    }
  }
}

// Places copies to the device in the order of falling deadlines, so each ends at or before the start of the
// one placed before it.
void transfer_placer::place_returns(const std::vector<swap_timing>& timing, std::vector<decision>& decisions,
                                    std::span<const position> needed_before) {
  nanoseconds begin = std::numeric_limits<nanoseconds>::max();
  auto after = start_times_.end();  // the first start time after `begin`
  const auto place_one = [&](const timed_gap_copy& c, position needed) {
    const gap& e = gaps_[c.gap];
    begin = std::min(begin, start_times_[static_cast<std::size_t>(needed)]) - c.time;
    if (timing[c.gap] != swap_timing::early) return;
    while (*std::prev(after) > std::max<nanoseconds>(begin, 0)) --after;
    const auto back = static_cast<position>(after - start_times_.begin()) - 1;
    decisions[c.gap].return_before = std::clamp(back, e.last_use + 1, std::max(needed, e.last_use + 1));
  };
  if (needed_before.empty()) {
    to_device_.visit_in_order(swapped_gaps_,
                              [&](const timed_gap_copy& c) { place_one(c, gaps_[c.gap].next_use); });
    return;
  }
  returning_.clear();
  to_device_.visit_in_order(swapped_gaps_, [&](const timed_gap_copy& c) { returning_.push_back(c); });
  std::ranges::stable_sort(returning_, std::ranges::greater{},
                           [&](const timed_gap_copy& c) { return needed_before[c.gap]; });
  for (const timed_gap_copy& c : returning_) place_one(c, needed_before[c.gap]);
}

void transfer_placer::place(const std::vector<swap_timing>& timing, std::vector<decision>& decisions,
                            std::span<const position> needed_before) {
  find_swapped_gaps(timing);
  for (const std::uint32_t x : swapped_gaps_)
    decisions[x] = {gap_choice::swap, gaps_[x].last_use, gaps_[x].next_use};
  place_returns(timing, decisions, needed_before);
  // A copy can begin after the last write; later reads do not delay it.
  calendar link_to_host;
  auto next = start_times_.begin();  // the first start time from the end of the last copy on
  to_host_.visit_in_order(swapped_gaps_, [&](const timed_gap_copy& c) {
    const std::uint32_t x = c.gap;
    const gap& e = gaps_[x];
    const nanoseconds end =
        link_to_host.book_first_free(start_times_[static_cast<std::size_t>(e.producer + 1)], c.time) + c.time;
    if (timing[x] == swap_timing::just_in_time) return;
    while (next != start_times_.end() && *next < end) ++next;
    while (next != start_times_.begin() && *std::prev(next) >= end) --next;
    const auto done = static_cast<position>(next - start_times_.begin());
    // A part that is swapped `back_late` is off the device for at least one compute.
    const position last = decisions[x].return_before - (timing[x] == swap_timing::back_late ? 2 : 1);
    decisions[x].leave_after = std::clamp(done - 1, e.last_use, std::max(e.last_use, last));
  });
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
