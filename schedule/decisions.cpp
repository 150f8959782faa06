#include "schedule/decisions.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/compute.hpp"

namespace um {
namespace {

constexpr std::uint32_t none = ~std::uint32_t{0};

}  // namespace

event_builder::event_builder(const graph& g, const use_table& uses, std::span<const gap> gaps)
    : g_(g),
      uses_(uses),
      gaps_(gaps),
      parts_(uses.parts.size()),
      state_(uses.parts.size()),
      here_(uses.parts.size()),
      runs_for_(uses.order.size(), -1) {
  std::vector<std::uint32_t> next_gap(uses.parts.size() + 1, none);
  for (std::size_t i = gaps.size(); i-- > 0;) next_gap[gaps[i].part] = static_cast<std::uint32_t>(i);
  const auto take_gap = [&](part_id p, position last) {
    const std::uint32_t x = next_gap[p];
    const bool begins = x < gaps.size() && gaps[x].part == p && gaps[x].last == last;
    if (begins) ++next_gap[p];
    return begins ? x : none;
  };
  for (part_id p = 0; p < uses.parts.size(); ++p) {
    const tensor_id t = uses.parts[p].what;
    const std::vector<use>& all = uses.of_part[p];
    const auto by = std::ranges::find_if(all, [](const use& u) { return u.mode != access_mode::read; });
    parts_[p] = {t, persists(g.tensors[t].use), by == all.end() ? -1 : by->at, none};
    if (parts_[p].persists && !all.empty()) parts_[p].first_gap = take_gap(p, -1);
  }
  first_touch_.push_back(0);
  for (position at = 0; at < uses.end(); ++at) {
    for (const touched_part& x : uses.of_position[static_cast<std::size_t>(at)]) {
      const role what = g.tensors[parts_[x.which].what].use;
      const bool dies = uses.of_part[x.which].back().at == at && !survives(what);
      touches_.push_back({x.which, x.mode, dies, take_gap(x.which, at)});
    }
    first_touch_.push_back(static_cast<std::uint32_t>(touches_.size()));
  }
}

std::span<const event> event_builder::build(std::span<const decision> decisions,
                                            const std::vector<bool>& staged) {
  decisions_ = decisions;
  events_.clear();
  std::ranges::fill(runs_for_, -1);
  for (part_id p = 0; p < parts_.size(); ++p) {
    const bool is_staged = staged[parts_[p].what], given = parts_[p].persists;
    state_[p] = {given && is_staged, is_staged, -1, parts_[p].first_gap};
    here_[p] = given && !is_staged ? 1 : 0;
  }
  index_transfers();
  auto back = back_.begin();
  auto leave = leave_.begin();
  for (position at = 0; at < uses_.end(); ++at) {
    now_ = at;
    for (; back != back_.end() && back->at == at; ++back) {
      if (here_[back->which] == 0) fetch(back->which);
    }
    bring_inputs(at);
    compute_now(at, false, touches_at(at));
    for (const touch& x : touches_at(at)) use_ends(x);
    for (; leave != leave_.end() && leave->at == at; ++leave) {
      const part_id p = gaps_[leave->which].part;
      if (here_[p] != 0 && state_[p].now_in == leave->which) evict_now(p);
    }
  }
  return events_;
}

// By position; what comes back before the same one in the order of its next use.
void event_builder::index_transfers() {
  back_.clear();
  leave_.clear();
  const auto comes = [&](position at, part_id p) {
    const auto& all = uses_.of_part[p];
    back_.push_back({at, std::ranges::lower_bound(all, at, {}, &use::at)->at, p});
  };
  for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
    const gap& e = gaps_[x];
    const decision& d = decisions_[x];
    if (d.what == choice::again) {
      if (!e.again) refuse(e, "computed again");
      continue;
    }
    if (!state_[e.part].staged) continue;
    if (d.what == choice::keep) {
      if (e.last < 0) comes(0, e.part);
      if (e.next == uses_.end()) leave_.push_back({e.last, 0, x});
      continue;
    }
    const position first = e.last + 1;
    const position back = std::clamp(d.back, first, std::max(e.next, first));
    if (e.next < uses_.end()) comes(back, e.part);
    if (e.last >= 0) leave_.push_back({std::clamp(d.leave, e.last, std::max(e.last, back - 1)), 0, x});
  }
  const auto order = [](const transfer& x) { return std::pair(x.at, x.next_use); };
  std::ranges::stable_sort(back_, {}, order);
  std::ranges::stable_sort(leave_, {}, order);
}

void event_builder::refuse(const gap& e, const std::string& how) const {
  throw std::invalid_argument("tensor " + g_.tensors[uses_.parts[e.part].what].name + " cannot be " + how);
}

// --- events ---

void event_builder::fetch(part_id p) {
  events_.push_back({verb::prefetch, p});
  here_[p] = 1;
}
void event_builder::evict_now(part_id p) {
  events_.push_back({verb::evict, p});
  here_[p] = 0;
  state_[p].home = true;
}
void event_builder::discard_now(part_id p) {
  events_.push_back({verb::discard, p});
  here_[p] = 0;
  state_[p].home = false;
}
void event_builder::compute_now(position at, bool again, const auto& touches) {
  events_.push_back({verb::compute, static_cast<std::uint32_t>(at), again});
  for (const auto& x : touches) {
    if (x.mode == access_mode::read) continue;
    here_[x.which] = 1;
    state_[x.which].home = false;
  }
}

// What a compute reads and is not there is fetched, or computed again in the order of the first time, each
// but once; what that took stays until the last of those has read it.
void event_builder::bring_inputs(position at) {
  runs_.clear();
  for (const touch& x : touches_at(at)) {
    if (x.mode != access_mode::write && here_[x.which] == 0) need(x.which, at);
  }
  if (needed_.empty()) return;
  std::ranges::sort(runs_);
  for (const position run : runs_) {
    const std::vector<touched_part>& touches_again = uses_.touched_again(run);
    fetch_inputs(touches_again);
    made_.clear();
    for (const touched_part& x : touches_again) {
      if (x.mode != access_mode::read && here_[x.which] == 0) made_.push_back(x.which);
    }
    compute_now(run, true, touches_again);
    for (const part_id p : made_) {
      if (state_[p].reader < 0) give_up_again(p);
    }
    for (const touched_part& x : touches_again) {
      if (x.mode == access_mode::read && state_[x.which].reader == run) give_up_again(x.which);
    }
  }
  fetch_inputs(touches_at(at));
  for (const part_id p : needed_) state_[p].reader = -1;
  needed_.clear();
}

void event_builder::need(part_id p, position reader) {
  if (here_[p] != 0) return;
  state& s = state_[p];
  const bool known = s.reader >= 0;
  s.reader = std::max(s.reader, reader);
  if (known) return;
  needed_.push_back(p);
  if (s.staged && s.home) return;
  const position by = parts_[p].producer;
  if (by < 0 || by >= now_) {
    throw std::invalid_argument("tensor " + g_.tensors[uses_.parts[p].what].name +
                                " is needed before it was computed, or where nothing can bring it back");
  }
  position& runs_for = runs_for_[static_cast<std::size_t>(by)];
  if (runs_for == now_) return;
  runs_for = now_;
  runs_.push_back(by);
  for (const touched_part& x : uses_.touched_again(by)) {
    if (x.mode != access_mode::write) need(x.which, by);
  }
}
void event_builder::fetch_inputs(const auto& touches) {
  for (const auto& x : touches) {
    if (x.mode != access_mode::write && here_[x.which] == 0) fetch(x.which);
  }
}

// Behind a use that is not its own: unless its decision is that it stays from now on.
void event_builder::give_up_again(part_id p) {
  const std::uint32_t in = state_[p].now_in;
  if (in == none) return discard_now(p);
  const decision& d = decisions_[in];
  if (d.what == choice::keep || (d.what == choice::again && now_ >= d.back)) return;
  if (d.what == choice::again) return discard_now(p);
  const gap& e = gaps_[in];
  if (e.next < uses_.end() && now_ >= std::clamp(d.back, e.last + 1, e.next)) return;
  evict_now(p);
}

void event_builder::use_ends(const touch& x) {
  state_[x.which].now_in = x.gap;
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
      plan.actions.emplace_back(e.again ? repeated(g, c) : c);
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
