#include "schedule/minimum_fit.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "schedule/fit_transfers.hpp"

namespace um {

decisions_minimum decisions_minimum_finder::minimum_for(std::vector<decision> decisions) {
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    if (decisions[x].choice == gap_choice::swap)
      decisions[x] = {gap_choice::swap, gaps_[x].last_use, gaps_[x].next_use};
  }
  for (std::size_t i = 0;; ++i) {
    attempt& now = attempt_at(i);
    evaluate(now, decisions);
    if (i + 1 == max_return_attempts || !return_for_earlier_readers(now, decisions)) {
      last_attempt_ = &now;
      const list_totals& found = now.evaluator.list().totals();
      return {found.peak, found.recompute_time};
    }
  }
}

position decisions_minimum_finder::peak_position() {
  change_evaluator& by = last_attempt_->evaluator;
  const std::span<const byte_count> live = by.new_live_at_positions();
  return static_cast<position>(std::ranges::max_element(live) - live.begin());
}

decisions_minimum_finder::attempt& decisions_minimum_finder::attempt_at(std::size_t i) {
  if (i == attempts_.size()) attempts_.emplace_back(g_, uses_, gaps_, costs_);
  return *std::next(attempts_.begin(), static_cast<std::ptrdiff_t>(i));
}

// Makes the attempt's list of events that of these decisions.
void decisions_minimum_finder::evaluate(attempt& by, const std::vector<decision>& decisions) const {
  constexpr byte_count any = std::numeric_limits<std::int64_t>::max();
  constexpr std::size_t rebuild_share = 8;  // if more than one in this many gaps changed, a rebuild is faster
  const bool is_new = by.decisions.empty();
  by.decisions = decisions;
  by.staged_tensors = find_staged_tensors(uses_, gaps_, decisions);
  by.changed.clear();
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    if (decisions[x] != by.evaluator.decisions()[x]) by.changed.push_back(x);
  }
  if (is_new || by.changed.size() > gaps_.size() / rebuild_share)
    return static_cast<void>(by.evaluator.rebuild(by.decisions, by.staged_tensors, any));
  by.evaluator.evaluate(by.decisions, by.staged_tensors, by.changed, any);
  by.evaluator.accept();
}

// Where a recomputation fetches a part before its decided return, moves the return to that position. Returns
// whether any return moved.
bool decisions_minimum_finder::return_for_earlier_readers(const attempt& by,
                                                          std::vector<decision>& decisions) {
  is_fetched_.assign(uses_.parts.size(), false);
  bool earlier = false;
  for (position at = 0; at < uses_.end(); ++at) {
    const event_list::position_block& here = by.evaluator.list().block_at(at);
    if (here.totals.fetch_count == 0) continue;
    for (const event& e : here.events) {
      if (e.kind != event_kind::prefetch || is_fetched_[e.subject]) continue;
      is_fetched_[e.subject] = true;
      const std::uint32_t end = by.builder.first_gap_of(e.subject + 1);
      for (std::uint32_t x = by.builder.first_gap_of(e.subject); x < end; ++x) {
        decision& d = decisions[x];
        if (d.choice != gap_choice::swap || gaps_[x].last_use >= at || d.return_before <= at) continue;
        d.return_before = at;
        earlier = true;
        break;
      }
    }
  }
  return earlier;
}

}  // namespace um
