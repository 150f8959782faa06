#include "schedule/decisions.hpp"

#include <algorithm>
#include <ranges>
#include <stdexcept>
#include <string>

#include "core/memory_plan.hpp"

namespace um {

event_builder::event_builder(const graph& g, const use_table& uses, std::span<const gap> gaps)
    : g_(g),
      uses_(uses),
      gaps_(gaps),
      parts_(uses.parts.size()),
      states_(uses.parts.size()),
      last_reader_(uses.parts.size(), -1),
      transfers_(uses.order.size(), gaps.size()),
      recomputes_(uses.end()),
      search_of_recompute_(uses.order.size(), 0) {
  for (part_id p = 0; p <= uses.parts.size(); ++p) {
    const auto at = std::ranges::lower_bound(gaps, p, {}, &gap::part);
    first_gap_.push_back(static_cast<std::uint32_t>(at - gaps.begin()));
  }
  for (part_id p = 0; p < uses.parts.size(); ++p) {
    const tensor_id t = uses.parts[p].tensor;
    const std::vector<use>& all = uses.uses_of_part[p];
    const auto by = std::ranges::find_if(all, [](const use& u) { return u.mode != access_mode::read; });
    parts_[p] = {t, persists(g.tensors[t].role), keeps_memory(g, t), by == all.end() ? -1 : by->at};
  }
  first_touch_.push_back(0);
  for (position at = 0; at < uses.end(); ++at) {
    for (const touched_part& x : uses.touched_parts[static_cast<std::size_t>(at)]) {
      const role what = g.tensors[parts_[x.part].tensor].role;
      const bool dies = uses.uses_of_part[x.part].back().at == at && !survives(what);
      touches_.push_back({x.part, x.mode, dies, gap_after(x.part, at)});
    }
    first_touch_.push_back(static_cast<std::uint32_t>(touches_.size()));
  }
}

std::uint32_t event_builder::gap_after(part_id p, position at) const {
  const auto all = gaps_.subspan(first_gap_[p], first_gap_[p + 1] - first_gap_[p]);
  const auto later = std::ranges::upper_bound(all, at, {}, &gap::last_use);
  if (later == all.begin() || std::prev(later)->next_use <= at) return no_gap;
  return first_gap_[p] + static_cast<std::uint32_t>(std::prev(later) - all.begin());
}

part_state event_builder::initial_state(part_id p, bool is_staged) const {
  const part_info& x = parts_[p];
  if (is_staged) return x.persists ? valid_at_home : 0;
  return static_cast<part_state>((x.persists ? on_device : 0) | (x.keeps_memory ? occupies_memory : 0));
}

std::span<const event> event_builder::build(std::span<const decision> decisions,
                                            const std::vector<bool>& staged_tensors) {
  set_decisions(decisions, staged_tensors);
  check_recomputes();
  states_.assume_all_known();
  for (part_id p = 0; p < parts_.size(); ++p) states_.set_initial(p, initial_state(p, is_staged(p)));
  events_.clear();
  for (position at = 0; at < uses_.end(); ++at) append_events(at);
  return events_;
}

void event_builder::set_decisions(std::span<const decision> decisions,
                                  const std::vector<bool>& staged_tensors) {
  change_decisions(decisions, staged_tensors, {});
  transfers_.clear();
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    if (is_staged(gaps_[x].part)) set_transfers_of_gap(x);
  }
}

void event_builder::change_decisions(std::span<const decision> decisions,
                                     const std::vector<bool>& staged_tensors,
                                     std::span<const std::uint32_t> changed) {
  decisions_ = decisions;
  staged_tensors_ = &staged_tensors;
  for (const std::uint32_t x : changed) set_transfers_of_gap(x);
}

std::span<const event> event_builder::build_position(position at) {
  events_.clear();
  append_events(at);
  return events_;
}

void event_builder::append_events(position at) {
  position_ = at;
  for (const auto& x : transfers_.returning_before(at)) {
    if (!is_on_device(x.part_or_gap)) append_prefetch(x.part_or_gap);
  }
  provide_inputs(at);
  append_compute(at, false, touches_at(at));
  for (const part_touch& x : touches_at(at)) discard_after_use(x);
  for (const auto& x : transfers_.leaving_after(at)) {
    const part_id p = gaps_[x.part_or_gap].part;
    if (is_on_device(p) && gap_after(p, at) == x.part_or_gap) append_evict(p);
  }
}

void state_history::record_change(position at, part_state before, part_state after) {
  const std::int32_t from = entry_of(at, 0), entry = entry_of(at, after);
  const auto is_at = [&](std::int32_t e) { return e - from < states; };
  const auto x = std::ranges::lower_bound(first_, from);
  if (x == first_.end()) {
    const auto y = std::ranges::lower_bound(later_, from);
    const bool known = y != later_.end() && is_at(*y);
    if (before == after && known) later_.erase(y);
    if (before != after && known) *y = entry;
    if (before != after && !known) later_.insert(y, entry);
  } else if (is_at(*x) && before != after) {
    *x = entry;
  } else if (is_at(*x)) {
    std::shift_left(x, first_.end(), 1);
    first_.back() = unused;
    if (later_.empty()) return;
    first_.back() = later_.front();
    later_.erase(later_.begin());
  } else if (before != after) {
    if (first_.back() != unused) later_.insert(later_.begin(), first_.back());
    std::shift_right(x, first_.end(), 1);
    *x = entry;
  }
}

void part_states::record_query(part_id p) {
  one_part& x = parts_[p];
  x.queried_in_step = current_step_;
  const auto [before, after] = x.history.states_around(position_);
  if (!x.is_pinned) x.current = before;
  queried_parts_.push_back({p, x.current, after});
}

gap_transfers transfers_of_gap(const gap& e, const decision& d, bool is_staged, position end) {
  gap_transfers m;
  if (!is_staged || d.choice == gap_choice::recompute) return m;
  if (d.choice == gap_choice::keep) {
    if (e.last_use < 0) m.return_before = 0;
    if (e.next_use == end) m.leave_after = e.last_use;
    return m;
  }
  const position first = e.last_use + 1;
  const position back = std::clamp(d.return_before, first, std::max(e.next_use, first));
  if (e.next_use < end) m.return_before = back;
  if (e.last_use >= 0) m.leave_after = std::clamp(d.leave_after, e.last_use, std::max(e.last_use, back - 1));
  return m;
}

void transfer_index::clear() {
  for (auto* all : {&returning_, &leaving_}) {
    for (std::vector<transfer>& at : *all) at.clear();
  }
  std::ranges::fill(moves_, gap_transfers{});
}

void transfer_index::set(std::uint32_t x, const gap& e, const gap_transfers& m) {
  const auto move = [&](std::vector<std::vector<transfer>>& all, position from, position to,
                        const transfer& what) {
    if (from == to) return;
    if (from >= 0) {
      std::vector<transfer>& there = all[static_cast<std::size_t>(from)];
      there.erase(std::ranges::lower_bound(there, what));
    }
    if (to >= 0) {
      std::vector<transfer>& there = all[static_cast<std::size_t>(to)];
      there.insert(std::ranges::lower_bound(there, what), what);
    }
  };
  const gap_transfers was = std::exchange(moves_[x], m);
  move(returning_, was.return_before, m.return_before, {e.next_use, e.part, x});
  move(leaving_, was.leave_after, m.leave_after, {0, x, x});
}

void event_builder::check_recomputes() const {
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    if (decisions_[x].choice != gap_choice::recompute || gaps_[x].is_recomputable) continue;
    throw std::invalid_argument("tensor " + g_.tensors[uses_.parts[gaps_[x].part].tensor].name +
                                " cannot be computed again");
  }
}

void event_builder::append_prefetch(part_id p) {
  events_.push_back({event_kind::prefetch, false, p});
  mark_on_device(p);
}
void event_builder::append_evict(part_id p) {
  events_.push_back({event_kind::evict, false, p});
  mark_off_device(p);
  states_.state_of(p) |= valid_at_home;
}
void event_builder::append_discard(part_id p) {
  events_.push_back({event_kind::discard, false, p});
  mark_off_device(p);
}
void event_builder::append_compute(position at, bool again, const auto& touches) {
  events_.push_back({event_kind::compute, again, static_cast<std::uint32_t>(at)});
  for (const auto& x : touches) {
    if (x.mode == access_mode::read) continue;
    mark_on_device(x.part);
    states_.state_of(x.part) &= static_cast<part_state>(~valid_at_home);
  }
}

// Brings the inputs of a compute to the device. Fetches or recomputes the missing parts, each once and in the
// order of their first computation. Inputs of recomputations stay until the last recomputation has read them.
void event_builder::provide_inputs(position at) {
  ++search_count_;
  for (const part_touch& x : touches_at(at)) {
    if (x.mode != access_mode::write && !is_on_device(x.part)) require_part(x.part, at);
  }
  if (required_parts_.empty()) return;
  for (position run = 0; (run = recomputes_.take_first()) >= 0;) {
    const std::vector<touched_part>& touches_again = uses_.touched_by_recompute(run);
    fetch_inputs(touches_again);
    new_parts_.clear();
    for (const touched_part& x : touches_again) {
      if (x.mode != access_mode::read && !is_on_device(x.part)) new_parts_.push_back(x.part);
    }
    append_compute(run, true, touches_again);
    for (const part_id p : new_parts_) {
      if (last_reader_[p] < 0) release_after_recompute(p);
    }
    for (const touched_part& x : touches_again) {
      if (x.mode == access_mode::read && last_reader_[x.part] == run) release_after_recompute(x.part);
    }
  }
  fetch_inputs(touches_at(at));
  for (const part_id p : required_parts_) last_reader_[p] = -1;
  required_parts_.clear();
}

void event_builder::require_part(part_id p, position reader) {
  if (is_on_device(p)) return;
  const bool known = last_reader_[p] >= 0;
  last_reader_[p] = std::max(last_reader_[p], reader);
  if (known) return;
  required_parts_.push_back(p);
  if (is_staged(p) && (states_.state_of(p) & valid_at_home) != 0) return;
  const position by = parts_[p].producer;
  if (by < 0 || by >= position_) {
    throw std::invalid_argument("tensor " + g_.tensors[uses_.parts[p].tensor].name +
                                " is needed before it was computed, or where nothing can bring it back");
  }
  std::uint64_t& runs_for = search_of_recompute_[static_cast<std::size_t>(by)];
  if (runs_for == search_count_) return;
  runs_for = search_count_;
  recomputes_.add(by);
  for (const touched_part& x : uses_.touched_by_recompute(by)) {
    if (x.mode != access_mode::write) require_part(x.part, by);
  }
}
void event_builder::fetch_inputs(const auto& touches) {
  for (const auto& x : touches) {
    if (x.mode != access_mode::write && !is_on_device(x.part)) append_prefetch(x.part);
  }
}

// Releases a part after a recomputation has read or written it, unless its decision keeps it.
void event_builder::release_after_recompute(part_id p) {
  const std::uint32_t in = gap_after(p, position_ - 1);
  if (in == no_gap) return append_discard(p);
  const decision& d = decisions_[in];
  const gap& e = gaps_[in];
  // A staged tensor that must be kept has already left after its last use.
  const bool left = is_staged(p) && e.next_use == uses_.end();
  if (d.choice == gap_choice::keep && !left) return;
  if (d.choice == gap_choice::recompute && position_ >= d.return_before) return;
  if (d.choice == gap_choice::recompute) return append_discard(p);
  if (e.next_use < uses_.end() && position_ >= std::clamp(d.return_before, e.last_use + 1, e.next_use))
    return;
  append_evict(p);
}

void event_builder::discard_after_use(const part_touch& x) {
  if (x.gap == no_gap ? x.is_last_use : decisions_[x.gap].choice == gap_choice::recompute)
    append_discard(x.part);
}

std::vector<bool> find_staged_tensors(const use_table& uses, std::span<const gap> gaps,
                                      std::span<const decision> decisions) {
  std::vector<bool> staged_tensors(uses.first_part.size() - 1, false);
  for (std::size_t x = 0; x < gaps.size(); ++x) {
    if (decisions[x].choice == gap_choice::swap) staged_tensors[uses.parts[gaps[x].part].tensor] = true;
  }
  return staged_tensors;
}

std::vector<event> build_events(const graph& g, const use_table& uses, std::span<const gap> gaps,
                                std::span<const decision> decisions) {
  event_builder builder(g, uses, gaps);
  const std::span<const event> all = builder.build(decisions, find_staged_tensors(uses, gaps, decisions));
  return {all.begin(), all.end()};
}

namespace {

// Removes the discards of parts that no later event touches: a plan does not need them.
std::vector<event> without_last_discards(const use_table& uses, const std::vector<event>& events) {
  std::vector<bool> later(uses.parts.size(), false);
  std::vector<event> kept;
  for (const event& e : std::views::reverse(events)) {
    if (e.kind == event_kind::discard && !later[e.subject]) continue;
    if (e.kind == event_kind::compute) {
      const auto at = static_cast<position>(e.subject);
      for (const touched_part& x :
           e.is_recompute ? uses.touched_by_recompute(at) : uses.touched_parts[e.subject])
        later[x.part] = true;
    } else {
      later[e.subject] = true;
    }
    kept.push_back(e);
  }
  std::ranges::reverse(kept);
  return kept;
}

}  // namespace

memory_plan make_plan(const graph& g, const use_table& uses, std::span<const gap> gaps,
                      std::span<const decision> decisions) {
  memory_plan plan;
  for (const bool is_staged : find_staged_tensors(uses, gaps, decisions))
    plan.residences.push_back(is_staged ? residence::staged : residence::device);
  for (const event& e : without_last_discards(uses, build_events(g, uses, gaps, decisions))) {
    if (e.kind == event_kind::compute) {
      const compute& c = uses.order[e.subject];
      plan.actions.emplace_back(e.is_recompute ? as_cheap_recomputation(g, c) : c);
      continue;
    }
    const tensor_id t = uses.parts[e.subject].tensor;
    const box part = box_of(g, uses.parts[e.subject]);
    if (e.kind == event_kind::prefetch) plan.actions.emplace_back(prefetch{t, part});
    if (e.kind == event_kind::evict) plan.actions.emplace_back(evict{t, part});
    if (e.kind == event_kind::discard) plan.actions.emplace_back(discard{t, part});
  }
  return plan;
}

}  // namespace um
