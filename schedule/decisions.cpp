#include "schedule/decisions.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/compute.hpp"

namespace um {

event_builder::event_builder(const graph& g, const use_table& uses, std::span<const gap> gaps)
    : g_(g),
      uses_(uses),
      gaps_(gaps),
      parts_(uses.parts.size()),
      states_(uses.parts.size()),
      reader_(uses.parts.size(), -1),
      runs_for_(uses.order.size(), 0) {
  for (part_id p = 0; p <= uses.parts.size(); ++p) {
    const auto at = std::ranges::lower_bound(gaps, p, {}, &gap::part);
    first_gap_.push_back(static_cast<std::uint32_t>(at - gaps.begin()));
  }
  for (part_id p = 0; p < uses.parts.size(); ++p) {
    const tensor_id t = uses.parts[p].what;
    const std::vector<use>& all = uses.of_part[p];
    const auto by = std::ranges::find_if(all, [](const use& u) { return u.mode != access_mode::read; });
    parts_[p] = {t, persists(g.tensors[t].use), by == all.end() ? -1 : by->at};
  }
  first_touch_.push_back(0);
  for (position at = 0; at < uses.end(); ++at) {
    for (const touched_part& x : uses.of_position[static_cast<std::size_t>(at)]) {
      const role what = g.tensors[parts_[x.which].what].use;
      const bool dies = uses.of_part[x.which].back().at == at && !survives(what);
      touches_.push_back({x.which, x.mode, dies, gap_behind(x.which, at)});
    }
    first_touch_.push_back(static_cast<std::uint32_t>(touches_.size()));
  }
}

std::uint32_t event_builder::gap_behind(part_id p, position at) const {
  const auto all = gaps_.subspan(first_gap_[p], first_gap_[p + 1] - first_gap_[p]);
  const auto later = std::ranges::upper_bound(all, at, {}, &gap::last);
  if (later == all.begin() || std::prev(later)->next <= at) return none;
  return first_gap_[p] + static_cast<std::uint32_t>(std::prev(later) - all.begin());
}

part_state event_builder::initial(part_id p, bool staged) const {
  if (!parts_[p].persists) return 0;
  return staged ? valid_at_home : on_device | takes_room;
}

std::span<const event> event_builder::build(std::span<const decision> decisions,
                                            const std::vector<bool>& staged) {
  set(decisions, staged);
  check();
  states_.know_all();
  for (part_id p = 0; p < parts_.size(); ++p) states_.start(p, initial(p, staged[parts_[p].what]));
  events_.clear();
  for (position at = 0; at < uses_.end(); ++at) make_events(at);
  return events_;
}

void event_builder::set(std::span<const decision> decisions, const std::vector<bool>& staged) {
  decisions_ = decisions;
  staged_ = &staged;
  transfers_.set(uses_, gaps_, first_gap_, decisions, staged);
}

std::span<const event> event_builder::step(position at) {
  events_.clear();
  make_events(at);
  return events_;
}

void event_builder::make_events(position at) {
  now_ = at;
  for (const auto& x : transfers_.back_before(at)) {
    if (!is_here(x.which)) fetch(x.which);
  }
  bring_inputs(at);
  compute_now(at, false, touches_at(at));
  for (const touch& x : touches_at(at)) use_ends(x);
  for (const auto& x : transfers_.leaving_behind(at)) {
    const part_id p = gaps_[x.which].part;
    if (is_here(p) && gap_behind(p, at) == x.which) evict_now(p);
  }
}

moves_of_gap moves_of(const gap& e, const decision& d, bool staged, position end) {
  moves_of_gap m;
  if (!staged || d.what == choice::again) return m;
  if (d.what == choice::keep) {
    if (e.last < 0) m.back = 0;
    if (e.next == end) m.leave = e.last;
    return m;
  }
  const position first = e.last + 1;
  const position back = std::clamp(d.back, first, std::max(e.next, first));
  if (e.next < end) m.back = back;
  if (e.last >= 0) m.leave = std::clamp(d.leave, e.last, std::max(e.last, back - 1));
  return m;
}

void transfer_index::set(const use_table& uses, std::span<const gap> gaps,
                         std::span<const std::uint32_t> first_gap, std::span<const decision> decisions,
                         const std::vector<bool>& staged) {
  back_.clear();
  leave_.clear();
  const auto next_use = [&](position at, part_id p) {
    return std::ranges::lower_bound(uses.of_part[p], at, {}, &use::at)->at;
  };
  for (tensor_id t = 0; t < staged.size(); ++t) {
    if (!staged[t]) continue;
    const std::uint32_t end = first_gap[uses.first_part[t + 1]];
    for (std::uint32_t x = first_gap[uses.first_part[t]]; x < end; ++x) {
      const gap& e = gaps[x];
      const moves_of_gap m = moves_of(e, decisions[x], true, uses.end());
      if (m.back >= 0) back_.push_back({m.back, next_use(m.back, e.part), e.part});
      if (m.leave >= 0) leave_.push_back({m.leave, 0, x});
    }
  }
  const auto order = [](const transfer& x) { return std::pair(x.at, x.next_use); };
  std::ranges::stable_sort(back_, {}, order);
  std::ranges::stable_sort(leave_, {}, order);
}

void event_builder::check() const {
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    if (decisions_[x].what == choice::again && !gaps_[x].again) refuse(gaps_[x], "computed again");
  }
}

void event_builder::refuse(const gap& e, const std::string& how) const {
  throw std::invalid_argument("tensor " + g_.tensors[uses_.parts[e.part].what].name + " cannot be " + how);
}

// --- events ---

void event_builder::goes(part_id p) {
  const bool always = parts_[p].persists && !(*staged_)[parts_[p].what];
  states_.of(p) = always ? takes_room : 0;
}
void event_builder::fetch(part_id p) {
  events_.push_back({verb::prefetch, p});
  arrives(p);
}
void event_builder::evict_now(part_id p) {
  events_.push_back({verb::evict, p});
  goes(p);
  states_.of(p) |= valid_at_home;
}
void event_builder::discard_now(part_id p) {
  events_.push_back({verb::discard, p});
  goes(p);
}
void event_builder::compute_now(position at, bool again, const auto& touches) {
  events_.push_back({verb::compute, static_cast<std::uint32_t>(at), again});
  for (const auto& x : touches) {
    if (x.mode == access_mode::read) continue;
    arrives(x.which);
    states_.of(x.which) &= static_cast<part_state>(~valid_at_home);
  }
}

// What a compute reads and is not there is fetched, or computed again in the order of the first time, each
// but once; what that took stays until the last of those has read it.
void event_builder::bring_inputs(position at) {
  runs_.clear();
  ++searches_;
  for (const touch& x : touches_at(at)) {
    if (x.mode != access_mode::write && !is_here(x.which)) need(x.which, at);
  }
  if (needed_.empty()) return;
  std::ranges::sort(runs_);
  for (const position run : runs_) {
    const std::vector<touched_part>& touches_again = uses_.touched_again(run);
    fetch_inputs(touches_again);
    made_.clear();
    for (const touched_part& x : touches_again) {
      if (x.mode != access_mode::read && !is_here(x.which)) made_.push_back(x.which);
    }
    compute_now(run, true, touches_again);
    for (const part_id p : made_) {
      if (reader_[p] < 0) give_up_again(p);
    }
    for (const touched_part& x : touches_again) {
      if (x.mode == access_mode::read && reader_[x.which] == run) give_up_again(x.which);
    }
  }
  fetch_inputs(touches_at(at));
  for (const part_id p : needed_) reader_[p] = -1;
  needed_.clear();
}

void event_builder::need(part_id p, position reader) {
  if (is_here(p)) return;
  const bool known = reader_[p] >= 0;
  reader_[p] = std::max(reader_[p], reader);
  if (known) return;
  needed_.push_back(p);
  if ((*staged_)[parts_[p].what] && (states_.of(p) & valid_at_home) != 0) return;
  const position by = parts_[p].producer;
  if (by < 0 || by >= now_) {
    throw std::invalid_argument("tensor " + g_.tensors[uses_.parts[p].what].name +
                                " is needed before it was computed, or where nothing can bring it back");
  }
  std::uint64_t& runs_for = runs_for_[static_cast<std::size_t>(by)];
  if (runs_for == searches_) return;
  runs_for = searches_;
  runs_.push_back(by);
  for (const touched_part& x : uses_.touched_again(by)) {
    if (x.mode != access_mode::write) need(x.which, by);
  }
}
void event_builder::fetch_inputs(const auto& touches) {
  for (const auto& x : touches) {
    if (x.mode != access_mode::write && !is_here(x.which)) fetch(x.which);
  }
}

// Behind a use that is not its own: unless its decision is that it stays from now on.
void event_builder::give_up_again(part_id p) {
  const std::uint32_t in = gap_before(p, now_);
  if (in == none) return discard_now(p);
  const decision& d = decisions_[in];
  const gap& e = gaps_[in];
  // What must be kept of a staged tensor left behind its last use.
  const bool left = (*staged_)[parts_[p].what] && e.next == uses_.end();
  if ((d.what == choice::keep && !left) || (d.what == choice::again && now_ >= d.back)) return;
  if (d.what == choice::again) return discard_now(p);
  if (e.next < uses_.end() && now_ >= std::clamp(d.back, e.last + 1, e.next)) return;
  evict_now(p);
}

void event_builder::use_ends(const touch& x) {
  if (x.gap == none ? x.dies : decisions_[x.gap].what == choice::again) discard_now(x.which);
}

std::vector<bool> staged_tensors(const use_table& uses, std::span<const gap> gaps,
                                 std::span<const decision> decisions) {
  std::vector<bool> staged(uses.first_part.size() - 1, false);
  for (std::size_t x = 0; x < gaps.size(); ++x) {
    if (decisions[x].what == choice::swap) staged[uses.parts[gaps[x].part].what] = true;
  }
  return staged;
}

std::vector<event> events_of(const graph& g, const use_table& uses, std::span<const gap> gaps,
                             std::span<const decision> decisions) {
  event_builder builder(g, uses, gaps);
  const std::span<const event> all = builder.build(decisions, staged_tensors(uses, gaps, decisions));
  // Discards of what nothing touches afterwards say nothing.
  std::vector<bool> later(uses.parts.size(), false);
  std::vector<event> kept;
  for (std::size_t i = all.size(); i-- > 0;) {
    const event& e = all[i];
    if (e.what == verb::discard && !later[e.which]) continue;
    if (e.what == verb::compute) {
      const auto at = static_cast<position>(e.which);
      for (const touched_part& x : e.again ? uses.touched_again(at) : uses.of_position[e.which])
        later[x.which] = true;
    } else {
      later[e.which] = true;
    }
    kept.push_back(e);
  }
  std::ranges::reverse(kept);
  return kept;
}

memory_plan plan_of(const graph& g, const use_table& uses, std::span<const gap> gaps,
                    std::span<const decision> decisions) {
  memory_plan plan;
  for (const bool is_staged : staged_tensors(uses, gaps, decisions))
    plan.home.push_back(is_staged ? residence::staged : residence::device);
  for (const event& e : events_of(g, uses, gaps, decisions)) {
    if (e.what == verb::compute) {
      const compute& c = uses.order[e.which];
      plan.actions.emplace_back(e.again ? as_cheap_recomputation(g, c) : c);
      continue;
    }
    const tensor_id t = uses.parts[e.which].what;
    const box part = box_of(g, uses.parts[e.which]);
    if (e.what == verb::prefetch) plan.actions.emplace_back(prefetch{t, part});
    if (e.what == verb::evict) plan.actions.emplace_back(evict{t, part});
    if (e.what == verb::discard) plan.actions.emplace_back(discard{t, part});
  }
  return plan;
}

}  // namespace um
