#include "schedule/swap_fitter.hpp"

#include <algorithm>

namespace um {

swap_fitter::swap_fitter(const use_table& uses, std::span<const gap> gaps)
    : uses_(uses), gaps_(gaps), input_gaps_(gaps.size()), first_readers_(gaps.size()) {
  std::vector<std::vector<std::uint32_t>> gaps_of_part(uses.parts.size());
  for (std::uint32_t x = 0; x < gaps.size(); ++x) gaps_of_part[gaps[x].part].push_back(x);
  for (std::uint32_t x = 0; x < gaps.size(); ++x) {
    const gap& e = gaps[x];
    if (!e.is_recomputable) continue;
    recomputable_gaps_.push_back(x);
    for (const touched_part& in : uses.touched_by_recompute(e.producer)) {
      if (in.mode == access_mode::write) continue;
      for (const std::uint32_t y : gaps_of_part[in.part]) {
        if (gaps[y].last_use < e.next_use && e.last_use < gaps[y].next_use) input_gaps_[x].push_back(y);
      }
    }
  }
  std::ranges::stable_sort(recomputable_gaps_, std::ranges::greater{},
                           [&](std::uint32_t x) { return gaps[x].producer; });
}

// Visits the latest producers first. So a part is visited after its readers, when its first reader is known.
std::span<const position> swap_fitter::find_first_readers(std::span<const decision> decisions) {
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) first_readers_[x] = gaps_[x].next_use;
  for (const std::uint32_t x : recomputable_gaps_) {
    if (decisions[x].choice != gap_choice::recompute) continue;
    const position at = first_readers_[x];
    for (const std::uint32_t y : input_gaps_[x]) {
      if (gaps_[y].last_use < at) first_readers_[y] = std::min(first_readers_[y], at);
    }
  }
  return first_readers_;
}

bool swap_fitter::fit(std::span<const std::uint32_t> swapped, const std::vector<swap_timing>& timing,
                      std::span<const byte_count> live_at_positions, byte_count budget,
                      std::vector<decision>& decisions) {
  early_gaps_.clear();
  std::ranges::copy_if(swapped, std::back_inserter(early_gaps_),
                       [&](std::uint32_t x) { return timing[x] == swap_timing::early; });
  if (early_gaps_.empty()) return false;
  live_bytes_.assign(live_at_positions.begin(), live_at_positions.end());
  bool changed = false;
  for (shift next; (next = find_shortest_shift(budget, decisions)).positions > 0; changed = true) {
    const byte_count bytes = uses_.parts[gaps_[next.gap].part].bytes;
    decision& d = decisions[next.gap];
    for (position i = 0; i < next.positions; ++i)
      live_at(next.is_return ? d.return_before++ : d.leave_after--) -= bytes;
  }
  return changed;
}

swap_fitter::shift swap_fitter::find_shortest_shift(byte_count budget, std::span<const decision> decisions) {
  shift shortest;
  const auto consider = [&](std::uint32_t x, position positions, bool is_return) {
    if (positions > 0 && (shortest.positions == 0 || positions < shortest.positions))
      shortest = {x, positions, is_return};
  };
  for (const std::uint32_t x : early_gaps_) {
    const gap& e = gaps_[x];
    const decision& d = decisions[x];
    if (e.next_use < uses_.end()) {
      position last = first_readers_[x] - 1;
      while (last >= d.return_before && live_at(last) <= budget) --last;
      consider(x, last + 1 - d.return_before, true);
    }
    if (e.last_use >= 0) {
      position first = e.last_use + 1;
      while (first <= d.leave_after && live_at(first) <= budget) ++first;
      consider(x, d.leave_after + 1 - first, false);
    }
  }
  return shortest;
}

}  // namespace um
