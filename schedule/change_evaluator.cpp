#include "schedule/change_evaluator.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace um {

list_totals totals_after(const event_list& list, const list_change& change, position end, byte_count budget) {
  const auto limit = static_cast<std::int64_t>(budget);
  list_totals found = list.totals();
  live_summary all;
  const auto add = [&](const live_summary& some) {
    all.peak = std::max(all.peak, some.peak);
    all.excess += some.excess;
  };
  for (const list_change::visited_position& v : change.visited) {
    const event_list::position_block& now = change.blocks[v.block_index];
    add(summarize_live(now.live_bytes, v.live_before, limit));
    add_to_totals(found, now.totals);
    subtract_from_totals(found, list.block_at(v.at).totals);
  }
  for (const list_change::unchanged_range& s : change.unchanged)
    add(list.live_bytes().summarize(s.begin, s.end, s.added_bytes, limit));
  // Positions in neither list keep their events and live bytes.
  position done = 0;
  auto s = change.unchanged.begin();
  auto v = change.visited.begin();
  const auto unchanged = [&](position until) {
    if (done < until) add(list.live_bytes().summarize(done, until, 0, limit));
  };
  while (s != change.unchanged.end() || v != change.visited.end()) {
    const bool first = v == change.visited.end() || (s != change.unchanged.end() && s->begin < v->at);
    unchanged(first ? s->begin : v->at);
    done = first ? s->end : v->at + 1;
    first ? static_cast<void>(++s) : static_cast<void>(++v);
  }
  unchanged(end);
  found.peak = static_cast<byte_count>(all.peak);
  found.excess = all.excess;
  return found;
}

std::span<const event> events_after(const event_list& list, const list_change& change, position end,
                                    std::vector<event>& into) {
  into.clear();
  auto v = change.visited.begin();
  for (position at = 0; at < end; ++at) {
    const bool visited = v != change.visited.end() && v->at == at;
    const auto& all = visited ? change.blocks[v->block_index].events : list.block_at(at).events;
    if (visited) ++v;
    into.insert(into.end(), all.begin(), all.end());
  }
  return into;
}

std::span<const byte_count> live_bytes_after(event_list& list, const list_change& change, position end,
                                             std::vector<byte_count>& into) {
  into.clear();
  const auto add = [&](std::int64_t more, const live_tree::relative_live_bytes& relative_live) {
    for (const std::int64_t bytes : relative_live) into.push_back(static_cast<byte_count>(more + bytes));
  };
  const std::span<const std::int64_t> before = list.live_before_each();
  auto v = change.visited.begin();
  auto u = change.unchanged.begin();
  for (position at = 0; at < end; ++at) {
    if (v != change.visited.end() && v->at == at) {
      add(v->live_before, change.blocks[v->block_index].live_bytes);
      ++v;
      continue;
    }
    while (u != change.unchanged.end() && u->end <= at) ++u;
    const bool moved = u != change.unchanged.end() && u->begin <= at;
    add(before[static_cast<std::size_t>(at)] + (moved ? u->added_bytes : 0), list.live_bytes().live_at(at));
  }
  return into;
}

position_live_bytes::position_maxima position_live_bytes::maxima_of(
    std::span<const event> events, const live_tree::relative_live_bytes& relative_live) {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min() / 2;
  position_maxima most{none, none};
  bool is_computed = false;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const event& e = events[i];
    const bool releases = e.kind == event_kind::discard || e.kind == event_kind::evict;
    std::int64_t& side = releases && !is_computed ? most.releasing : most.others;
    side = std::max(side, relative_live[i]);
    is_computed = is_computed || (e.kind == event_kind::compute && !e.is_recompute);
  }
  return most;
}

void position_live_bytes::accept(const list_change& change) {
  for (const list_change::visited_position& v : change.visited) {
    const event_list::position_block& b = change.blocks[v.block_index];
    if (!list_maxima_.empty())
      list_maxima_[static_cast<std::size_t>(v.at)] = maxima_of(b.events, b.live_bytes);
  }
}

std::span<const byte_count> position_live_bytes::maxima_after(event_list& list, const list_change& change,
                                                              position end) {
  for (auto at = static_cast<position>(list_maxima_.size()); at < end; ++at)
    list_maxima_.push_back(maxima_of(list.block_at(at).events, list.live_bytes().live_at(at)));
  const std::span<const std::int64_t> before = list.live_before_each();
  maxima_after_.assign(list_maxima_.size(), 0);
  const auto raise = [&](position at, std::int64_t bytes) {
    byte_count& most = maxima_after_[static_cast<std::size_t>(at)];
    most = static_cast<byte_count>(std::max(static_cast<std::int64_t>(most), bytes));
  };
  auto v = change.visited.begin();
  auto u = change.unchanged.begin();
  for (position at = 0; at < end; ++at) {
    const auto i = static_cast<std::size_t>(at);
    position_maxima here = list_maxima_[i];
    std::int64_t alive = before[i];
    while (u != change.unchanged.end() && u->end <= at) ++u;
    if (v != change.visited.end() && v->at == at) {
      const event_list::position_block& b = change.blocks[v->block_index];
      here = maxima_of(b.events, b.live_bytes);
      alive = v->live_before;
      ++v;
    } else if (u != change.unchanged.end() && u->begin <= at) {
      alive += u->added_bytes;
    }
    raise(at, alive + here.others);
    raise(std::max(at - 1, 0), alive + here.releasing);
  }
  return maxima_after_;
}

change_evaluator::change_evaluator(const use_table& uses, std::span<const gap> gaps,
                                   event_builder& new_events, forecaster& costs)
    : uses_(uses),
      gaps_(gaps),
      builder_(new_events),
      list_(uses, new_events, costs),
      recompute_touches_(uses.parts.size()),
      decisions_(gaps.size()),
      pending_positions_(uses.end()),
      live_difference_(uses.parts.size(), 0) {
  for (position at = 0; at < uses.end(); ++at) {
    for (const touched_part& x : uses.touched_by_recompute(at)) recompute_touches_[x.part].push_back(at);
  }
}

bool change_evaluator::rebuild(std::span<const decision> decisions, const std::vector<bool>& staged_tensors,
                               byte_count budget, std::int64_t max_events) {
  reset();
  gaps_with_other_transfers_.clear();
  live_at_positions_.clear();
  decisions_.assign(decisions.begin(), decisions.end());
  staged_tensors_ = staged_tensors;
  list_.rebuild(decisions_, staged_tensors_, budget, max_events);
  visited_count_ += static_cast<std::uint64_t>(list_.totals().event_count);
  return list_.totals().event_count <= max_events;
}

// Discards the change that was evaluated last.
void change_evaluator::reset() {
  for (const part_id p : pinned_parts_) {
    builder_.states().unpin(p);
    live_difference_[p] = 0;
  }
  pinned_parts_.clear();
  change_.visited.clear();
  change_.unchanged.clear();
  state_changes_.clear();
  changed_tensors_.clear();
  changed_gaps_ = {};
}

list_totals change_evaluator::evaluate(std::span<const decision> decisions,
                                       const std::vector<bool>& staged_tensors,
                                       std::span<const std::uint32_t> changed, byte_count budget) {
  if (budget != list_.budget()) list_.recount_excess(budget);
  reset();
  new_decisions_ = decisions;
  new_staged_tensors_ = &staged_tensors;
  changed_gaps_ = changed;
  done_ = 0;
  total_difference_ = list_.joined_difference(staged_tensors_, staged_tensors);
  update_transfers();
  compare_initial_states();
  for (const std::uint32_t x : changed) enqueue_gap(x);
  for (position at = 0; (at = pending_positions_.take_first()) >= 0;) {
    add_unchanged_range(done_, at);
    done_ = at + 1;
    rebuild_position(at);
  }
  add_unchanged_range(done_, uses_.end());
  new_totals_ = totals_after(list_, change_, uses_.end(), budget);
  return new_totals_;
}

// The builder's index of transfers is that of the new decisions from now on.
void change_evaluator::update_transfers() {
  std::vector<std::uint32_t>& all = gaps_with_other_transfers_;
  const auto before = static_cast<std::ptrdiff_t>(all.size());
  all.insert(all.end(), changed_gaps_.begin(), changed_gaps_.end());
  for (const std::uint32_t changed : changed_gaps_) {
    const tensor_id t = uses_.parts[gaps_[changed].part].tensor;
    if (staged_tensors_[t] == (*new_staged_tensors_)[t]) continue;
    if (std::ranges::find(changed_tensors_, t) != changed_tensors_.end()) continue;
    changed_tensors_.push_back(t);
    std::ranges::copy(builder_.gaps_of(t), std::back_inserter(all));
  }
  builder_.change_decisions(new_decisions_, *new_staged_tensors_, all);
  all.erase(all.begin(), all.begin() + before);
}

// A tensor that is staged in only one of the lists starts in another place, and any of its gaps may have
// transfers.
void change_evaluator::compare_initial_states() {
  for (const tensor_id t : changed_tensors_) {
    for (const std::uint32_t x : builder_.gaps_of(t)) enqueue_gap(x);
    for (part_id p = uses_.first_part[t]; p < uses_.first_part[t + 1]; ++p) {
      const part_state listed = builder_.states().state_after(p, -1);
      record_state_difference({p, -1, listed, builder_.initial_state(p, (*new_staged_tensors_)[t])}, listed);
    }
  }
}

// Enqueues every position whose events may depend on the decision for the gap.
void change_evaluator::enqueue_gap(std::uint32_t x) {
  const gap& e = gaps_[x];
  enqueue(std::max(e.last_use, 0));
  enqueue(e.next_use);
  for (const bool is_new : {false, true}) {
    const gap_transfers m = transfers_of(x, is_new);
    if (m.return_before >= 0) enqueue(m.return_before);
    if (m.leave_after >= 0) enqueue(m.leave_after);
  }
  for (const position r : recompute_touches_[e.part]) {
    const std::span<const position> all = list_.recomputed_before(r);
    for (auto at = std::ranges::lower_bound(all, e.last_use); at != all.end() && *at <= e.next_use; ++at)
      enqueue(*at);
  }
}

// The first position after `after` whose events may depend on the part's state.
position change_evaluator::next_dependent_position(part_id p, position after) const {
  const auto& uses = uses_.uses_of_part[p];
  const auto use = std::ranges::upper_bound(uses, after, {}, &use::at);
  position next = use == uses.end() ? uses_.end() : use->at;
  for (const position r : recompute_touches_[p]) {
    const std::span<const position> all = list_.recomputed_before(r);
    const auto at = std::ranges::upper_bound(all, after);
    if (at != all.end()) next = std::min(next, *at);
  }
  const std::uint32_t x = builder_.gap_after(p, after);
  if (x == no_gap) return next;
  for (const bool is_new : {false, true}) {
    const gap_transfers m = transfers_of(x, is_new);
    for (const position at : {m.return_before, m.leave_after}) {
      if (at > after) next = std::min(next, at);
    }
  }
  return next;
}

void change_evaluator::rebuild_position(position at) {
  part_states& states = builder_.states();
  const event_list::position_block& old = list_.block_at(at);
  states.begin_step(at);
  const std::int64_t before = list_.live_bytes().live_before(at) + total_difference_;
  const std::span<const event> made = builder_.build_position(at);
  for (const event& e : old.events) {
    if (e.kind != event_kind::compute) {
      states.state_of(e.subject);
      continue;
    }
    const auto which = static_cast<position>(e.subject);
    for (const touched_part& x :
         e.is_recompute ? uses_.touched_by_recompute(which) : uses_.touched_parts[e.subject])
      states.state_of(x.part);
  }
  const std::size_t block = change_.visited.size();
  if (block == change_.blocks.size()) change_.blocks.emplace_back();
  list_.fill_block(change_.blocks[block], made, *new_staged_tensors_);
  visited_count_ += 1 + made.size() / 4;
  change_.visited.push_back({at, before, block});
  for (const auto& [p, was, listed] : states.queried_parts())
    record_state_difference({p, at, was, states.state_of(p)}, listed);
}

// Records a state that differs, or no longer differs, from the current list's. `after` is -1 at the start.
void change_evaluator::record_state_difference(const changed_state& x, part_state listed) {
  part_states& states = builder_.states();
  if (x.new_state == listed && !states.is_pinned(x.part)) return;
  state_changes_.push_back(x);
  const auto bytes = static_cast<std::int64_t>(uses_.parts[x.part].bytes);
  const std::int64_t by =
      ((x.new_state & occupies_memory) != 0 ? bytes : 0) - ((listed & occupies_memory) != 0 ? bytes : 0);
  total_difference_ += by - live_difference_[x.part];
  live_difference_[x.part] = by;
  if (x.new_state == listed) return states.unpin(x.part);
  if (!states.is_pinned(x.part)) pinned_parts_.push_back(x.part);
  states.pin(x.part, x.new_state);
  enqueue(next_dependent_position(x.part, x.after));
}

void change_evaluator::accept() {
  for (const list_change::unchanged_range& s : change_.unchanged)
    list_.add_live_bytes(s.begin, s.end, s.added_bytes);
  live_at_positions_.accept(change_);
  for (const list_change::visited_position& v : change_.visited)
    list_.exchange_block(v.at, change_.blocks[v.block_index], v.live_before);
  part_states& states = builder_.states();
  for (const changed_state& x : state_changes_)
    states.record_change(x.part, x.after, x.old_state, x.new_state);
  for (const std::uint32_t x : changed_gaps_) decisions_[x] = new_decisions_[x];
  for (const tensor_id t : changed_tensors_) staged_tensors_[t] = (*new_staged_tensors_)[t];
  gaps_with_other_transfers_.clear();
  list_.set_totals(new_totals_);
  reset();
}

}  // namespace um
