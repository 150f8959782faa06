#include "schedule/minimum_fit.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "schedule/fit_transfers.hpp"

namespace um {

minimum_need minimum_fitter::need_of(std::vector<decision> decisions) {
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    if (decisions[x].choice == gap_choice::swap)
      decisions[x] = {gap_choice::swap, gaps_[x].last_use, gaps_[x].next_use};
  }
  for (std::size_t i = 0;; ++i) {
    attempt& now = attempt_at(i);
    evaluate(now, decisions);
    if (i + 1 == most_minimum_tries || !return_for_earlier_readers(now, decisions)) {
      last_ = &now;
      const list_totals& found = now.evaluator.list().totals();
      return {found.peak, found.recompute_time};
    }
  }
}

position minimum_fitter::peak_position() {
  change_evaluator& by = last_->evaluator;
  const std::vector<byte_count> live = live_at_positions(uses_, by.new_events(), by.new_live_bytes());
  return static_cast<position>(std::ranges::max_element(live) - live.begin());
}

minimum_fitter::attempt& minimum_fitter::attempt_at(std::size_t i) {
  if (i == attempts_.size()) attempts_.emplace_back(g_, uses_, gaps_, costs_);
  return *std::next(attempts_.begin(), static_cast<std::ptrdiff_t>(i));
}

// Makes the list of these decisions the attempt's own.
void minimum_fitter::evaluate(attempt& by, const std::vector<decision>& decisions) const {
  constexpr byte_count any = std::numeric_limits<std::int64_t>::max();
  constexpr std::size_t share = 8;  // where more gaps changed, a new list is built faster
  const bool is_new = by.decisions.empty();
  by.decisions = decisions;
  by.staged = find_staged_tensors(uses_, gaps_, decisions);
  by.changed.clear();
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    if (decisions[x] != by.evaluator.decisions()[x]) by.changed.push_back(x);
  }
  if (is_new || by.changed.size() > gaps_.size() / share)
    return by.evaluator.rebuild(by.decisions, by.staged, any);
  by.evaluator.evaluate(by.decisions, by.staged, by.changed, any);
  by.evaluator.accept();
}

// Where a part is fetched earlier than for its own use, moves its return there. Whether any moved.
bool minimum_fitter::return_for_earlier_readers(const attempt& by, std::vector<decision>& decisions) {
  fetched_.assign(uses_.parts.size(), false);
  bool earlier = false;
  for (position at = 0; at < uses_.end(); ++at) {
    const event_list::position_block& here = by.evaluator.list().block_at(at);
    if (here.totals.fetch_count == 0) continue;
    for (const event& e : here.events) {
      if (e.kind != event_kind::prefetch || fetched_[e.subject]) continue;
      fetched_[e.subject] = true;
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
