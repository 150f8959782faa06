#include "schedule/event_list.hpp"

#include <algorithm>
#include <utility>

namespace um {

void add_to_totals(list_totals& all, const list_totals& one) {
  all.compute_time += one.compute_time;
  all.recompute_time += one.recompute_time;
  all.fetched_bytes += one.fetched_bytes;
  all.fetch_count += one.fetch_count;
  all.transfer_count += one.transfer_count;
  all.event_count += one.event_count;
}
void subtract_from_totals(list_totals& all, const list_totals& one) {
  all.compute_time -= one.compute_time;
  all.recompute_time -= one.recompute_time;
  all.fetched_bytes -= one.fetched_bytes;
  all.fetch_count -= one.fetch_count;
  all.transfer_count -= one.transfer_count;
  all.event_count -= one.event_count;
}

event_list::event_list(const use_table& uses, event_builder& events, forecaster& costs)
    : uses_(uses),
      builder_(events),
      forecaster_(costs),
      blocks_(uses.order.size()),
      recomputed_before_(uses.order.size()),
      live_bytes_(uses.order.size()),
      old_states_(uses.parts.size(), 0) {}

void event_list::rebuild(std::span<const decision> decisions, const std::vector<bool>& staged,
                         byte_count budget) {
  part_states& states = builder_.states();
  builder_.set_decisions(decisions, staged);
  for (auto& all : recomputed_before_) all.clear();
  std::int64_t alive = 0;
  for (part_id p = 0; p < uses_.parts.size(); ++p) {
    const part_state s = builder_.initial_state(p, staged[uses_.parts[p].tensor]);
    states.reset_history(p, s);
    if ((s & occupies_memory) != 0) alive += static_cast<std::int64_t>(uses_.parts[p].bytes);
  }
  totals_ = {};
  std::vector<live_tree::live_at_events> live(uses_.order.size());
  std::vector<std::int64_t> before(uses_.order.size());
  for (position at = 0; at < uses_.end(); ++at) {
    const auto i = static_cast<std::size_t>(at);
    states.begin_step(at);
    before[i] = alive;
    const std::span<const event> made = builder_.build_position(at);
    fill_block(blocks_[i], made, staged);
    add_to_totals(totals_, blocks_[i].totals);
    record_recomputes(blocks_[i], at, true);
    live[i] = blocks_[i].live_bytes;
    for (const auto& [p, was] : states.queried_parts()) {
      const part_state is = states.state_of(p);
      if (is == was) continue;
      states.record_change(p, at, was, is);
      const int here = ((is & occupies_memory) != 0 ? 1 : 0) - ((was & occupies_memory) != 0 ? 1 : 0);
      alive += here * static_cast<std::int64_t>(uses_.parts[p].bytes);
    }
  }
  live_bytes_.assign(std::move(live), before);
  recount_excess(budget);
}

void event_list::recount_excess(byte_count budget) {
  budget_ = budget;
  const live_summary all = live_bytes_.summarize(0, uses_.end(), 0, static_cast<std::int64_t>(budget));
  totals_.peak = static_cast<byte_count>(all.peak);
  totals_.excess = all.excess;
}

void event_list::fill_block(position_block& b, std::span<const event> made, const std::vector<bool>& staged) {
  for (const auto& [p, was] : builder_.states().queried_parts()) old_states_[p] = was;
  b.events.assign(made.begin(), made.end());
  const std::span<const byte_count> live =
      forecaster_.live_bytes_within(b.events, staged, [&](part_id p) { return old_states_[p]; });
  b.live_bytes.assign(live.begin(), live.end());
  b.totals = {};
  b.totals.event_count = static_cast<std::int64_t>(made.size());
  for (const event& e : b.events) {
    if (e.kind == event_kind::compute) {
      const nanoseconds time = forecaster_.compute_time(e);
      b.totals.compute_time += time;
      if (e.is_recompute) b.totals.recompute_time += time;
    } else if (e.kind != event_kind::discard) {
      ++b.totals.transfer_count;
      if (e.kind == event_kind::evict) continue;
      ++b.totals.fetch_count;
      b.totals.fetched_bytes += uses_.parts[e.subject].bytes;
    }
  }
}

void event_list::exchange_block(position at, position_block& other, std::int64_t before) {
  position_block& mine = blocks_[static_cast<std::size_t>(at)];
  record_recomputes(mine, at, false);
  std::swap(mine, other);
  record_recomputes(mine, at, true);
  live_bytes_.replace(at, mine.live_bytes, before);
}

void event_list::record_recomputes(const position_block& b, position at, bool there) {
  for (const event& e : b.events) {
    if (e.kind != event_kind::compute || !e.is_recompute) continue;
    std::vector<position>& all = recomputed_before_[e.subject];
    const auto x = std::ranges::lower_bound(all, at);
    const bool known = x != all.end() && *x == at;
    if (there && !known) all.insert(x, at);
    if (!there && known) all.erase(x);
  }
}

position event_list::peak_position() const {
  const position at = live_bytes_.first_reaching(static_cast<std::int64_t>(totals_.peak));
  if (at >= uses_.end()) return uses_.end() - 1;
  const position_block& b = blocks_[static_cast<std::size_t>(at)];
  const std::int64_t before = live_bytes_.live_before(at);
  for (std::size_t i = 0; i < b.events.size(); ++i) {
    if (before + b.live_bytes[i] >= static_cast<std::int64_t>(totals_.peak)) return at;
    if (b.events[i].kind == event_kind::compute && !b.events[i].is_recompute) break;
  }
  return std::min(at + 1, uses_.end() - 1);
}

}  // namespace um
