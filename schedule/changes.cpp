#include "schedule/changes.hpp"

#include <algorithm>
#include <utility>

namespace um {

list_figures figures_of(const event_list& list, const list_change& change, position end, byte_count budget) {
  const auto most = static_cast<std::int64_t>(budget);
  list_figures found = list.now();
  excess_of all{0, found.over};
  const auto exchange = [&](const excess_of& now, const excess_of& was) {
    all.peak = std::max(all.peak, now.peak);
    all.over += now.over - was.over;
  };
  for (const list_change::visit& v : change.visits) {
    const event_list::block& old = list.at(v.at);
    exchange(over(change.blocks[v.block].live, v.before, most),
             over(old.live, list.live().before(v.at), most));
    add_to(found, change.blocks[v.block].sums);
    take_from(found, old.sums);
  }
  for (const list_change::stretch& s : change.stretches)
    exchange(list.live().over(s.begin, s.end, s.more, most), list.live().over(s.begin, s.end, 0, most));
  // What neither visits nor stretches cover is as it was.
  position done = 0;
  auto s = change.stretches.begin();
  auto v = change.visits.begin();
  const auto unchanged = [&](position until) {
    if (done < until) all.peak = std::max(all.peak, list.live().over(done, until, 0, most).peak);
  };
  while (s != change.stretches.end() || v != change.visits.end()) {
    const bool first = v == change.visits.end() || (s != change.stretches.end() && s->begin < v->at);
    unchanged(first ? s->begin : v->at);
    done = first ? s->end : v->at + 1;
    first ? static_cast<void>(++s) : static_cast<void>(++v);
  }
  unchanged(end);
  found.peak = static_cast<byte_count>(all.peak);
  found.over = all.over;
  return found;
}

changes::changes(const use_table& uses, std::span<const gap> gaps, event_builder& events, forecaster& costs)
    : uses_(uses),
      gaps_(gaps),
      build_(events),
      list_(uses, events, costs),
      used_again_(uses.parts.size()),
      decisions_(gaps.size()),
      differs_by_(uses.parts.size(), 0) {
  for (position at = 0; at < uses.end(); ++at) {
    for (const touched_part& x : uses.touched_again(at)) used_again_[x.which].push_back(at);
  }
}

void changes::restart(std::span<const decision> decisions, const std::vector<bool>& staged,
                      byte_count budget) {
  forget();
  decisions_.assign(decisions.begin(), decisions.end());
  staged_ = staged;
  budget_ = budget;
  list_.restart(decisions_, staged_, budget);
  visited_ += static_cast<std::uint64_t>(list_.now().events);
}

// What was evaluated.
void changes::forget() {
  for (const part_id p : pinned_) {
    build_.states().unpin(p);
    differs_by_[p] = 0;
  }
  pinned_.clear();
  more_ = 0;
  change_.visits.clear();
  change_.stretches.clear();
  states_.clear();
  flipped_.clear();
  changed_ = {};
}

list_figures changes::evaluate(std::span<const decision> decisions, const std::vector<bool>& staged,
                               std::span<const std::uint32_t> changed, byte_count budget) {
  if (budget != budget_) list_.count_beyond(budget);
  budget_ = budget;
  forget();
  new_decisions_ = decisions;
  new_staged_ = &staged;
  changed_ = changed;
  build_.set(decisions, staged);
  change_starts();
  for (const std::uint32_t x : changed) visit_gap(x);
  position done = 0;  // everything before is known
  while (!queue_.empty()) {
    const position at = queue_.top();
    queue_.pop();
    if (at < done) continue;
    add_stretch(done, at);
    visit_now(at);
    done = at + 1;
  }
  add_stretch(done, uses_.end());
  found_ = figures_of(list_, change_, uses_.end(), budget);
  return found_;
}

// Tensors that are staged in one of both: their parts begin elsewhere, and any of their gaps may have moves.
void changes::change_starts() {
  for (tensor_id t = 0; t < staged_.size(); ++t) {
    if (staged_[t] == (*new_staged_)[t]) continue;
    flipped_.push_back(t);
    for (part_id p = uses_.first_part[t]; p < uses_.first_part[t + 1]; ++p) {
      const part_state is = build_.initial(p, (*new_staged_)[t]);
      for (std::uint32_t x = build_.gaps_of(p); x < build_.gaps_of(p + 1); ++x) visit_gap(x);
      compare(p, -1, is);
    }
  }
}

// Wherever its decision may be asked for.
void changes::visit_gap(std::uint32_t x) {
  const gap& e = gaps_[x];
  visit_later(std::max(e.last, 0));
  visit_later(e.next);
  for (const bool is_new : {false, true}) {
    const decision& d = is_new ? new_decisions_[x] : decisions_[x];
    const moves_of_gap m = moves_of(e, d, is_staged(is_new ? *new_staged_ : staged_, e.part), uses_.end());
    if (m.back >= 0) visit_later(m.back);
    if (m.leave >= 0) visit_later(m.leave);
  }
  for (const position r : used_again_[e.part]) {
    const std::span<const position> all = list_.again_before(r);
    for (auto at = std::ranges::lower_bound(all, e.last); at != all.end() && *at <= e.next; ++at)
      visit_later(*at);
  }
}

// The first position behind `after` whose events may depend on the part's state.
position changes::next_asked(part_id p, position after) const {
  const auto& uses = uses_.of_part[p];
  const auto use = std::ranges::upper_bound(uses, after, {}, &use::at);
  position next = use == uses.end() ? uses_.end() : use->at;
  for (const position r : used_again_[p]) {
    const std::span<const position> all = list_.again_before(r);
    const auto at = std::ranges::upper_bound(all, after);
    if (at != all.end()) next = std::min(next, *at);
  }
  const std::uint32_t x = build_.gap_behind(p, after);
  if (x == event_builder::none) return next;
  for (const bool is_new : {false, true}) {
    const decision& d = is_new ? new_decisions_[x] : decisions_[x];
    const moves_of_gap m = moves_of(gaps_[x], d, is_staged(is_new ? *new_staged_ : staged_, p), uses_.end());
    for (const position at : {m.back, m.leave}) {
      if (at > after) next = std::min(next, at);
    }
  }
  return next;
}

void changes::visit_now(position at) {
  part_states& states = build_.states();
  const event_list::block& old = list_.at(at);
  states.begin_step(at);
  const std::int64_t before = list_.live().before(at) + more_;
  const std::span<const event> made = build_.step(at);
  for (const event& e : old.events) {
    if (e.what != verb::compute) {
      states.of(e.which);
      continue;
    }
    const auto which = static_cast<position>(e.which);
    for (const touched_part& x : e.again ? uses_.touched_again(which) : uses_.of_position[e.which])
      states.of(x.which);
  }
  const std::size_t block = change_.visits.size();
  if (block == change_.blocks.size()) change_.blocks.emplace_back();
  list_.fill(change_.blocks[block], made, *new_staged_);
  visited_ += 1 + made.size() / 4;
  change_.visits.push_back({at, before, block});
  for (const auto& [p, was] : states.seen()) compare(p, at, was);
}

// Behind a position, or, for -1, at the start: whether the part's state is as in the current list. `was`:
// before the position.
void changes::compare(part_id p, position at, part_state was) {
  part_states& states = build_.states();
  const part_state is = at < 0 ? was : states.of(p), other = states.behind(p, at);
  states_.push_back({p, at, was, is});
  const auto bytes = static_cast<std::int64_t>(uses_.parts[p].bytes);
  const std::int64_t by = ((is & takes_room) != 0 ? bytes : 0) - ((other & takes_room) != 0 ? bytes : 0);
  more_ += by - differs_by_[p];
  differs_by_[p] = by;
  if (is == other) return states.unpin(p);
  if (!states.is_pinned(p)) pinned_.push_back(p);
  states.pin(p, is);
  visit_later(next_asked(p, at));
}

void changes::add_stretch(position begin, position end) {
  if (begin < end && more_ != 0) change_.stretches.push_back({begin, end, more_});
}

void changes::keep() {
  for (const list_change::stretch& s : change_.stretches) list_.add_alive(s.begin, s.end, s.more);
  for (const list_change::visit& v : change_.visits) list_.exchange(v.at, change_.blocks[v.block], v.before);
  part_states& states = build_.states();
  for (const state_change& x : states_) {
    if (x.behind < 0) {
      states.restart(x.which, x.after);
    } else {
      states.note(x.which, x.behind, x.before, x.after);
    }
  }
  for (const std::uint32_t x : changed_) decisions_[x] = new_decisions_[x];
  for (const tensor_id t : flipped_) staged_[t] = (*new_staged_)[t];
  list_.set(found_);
  forget();
}

std::span<const event> changes::events() {
  all_events_.clear();
  auto v = change_.visits.begin();
  for (position at = 0; at < uses_.end(); ++at) {
    const bool visited = v != change_.visits.end() && v->at == at;
    const auto& all = visited ? change_.blocks[v->block].events : list_.at(at).events;
    if (visited) ++v;
    all_events_.insert(all_events_.end(), all.begin(), all.end());
  }
  return all_events_;
}

}  // namespace um
