#include "schedule/decisions.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace um {
namespace {

constexpr std::uint32_t none = ~std::uint32_t{0};

class building {
 public:
  building(const graph& g, const use_table& uses, std::span<const gap> gaps,
           std::span<const decision> decisions)
      : g_(g),
        uses_(uses),
        gaps_(gaps),
        decisions_(decisions),
        staged_(staged_tensors(uses, gaps, decisions)),
        here_(uses.parts.size(), false),
        home_(uses.parts.size(), false),
        now_in_(uses.parts.size(), none),
        next_gap_(uses.parts.size() + 1, 0),
        reader_(uses.parts.size(), -1) {
    for (std::size_t i = gaps.size(); i-- > 0;) next_gap_[gaps[i].part] = static_cast<std::uint32_t>(i);
    index_transfers();
    for (part_id p = 0; p < uses.parts.size(); ++p) {
      if (!persists(use_of(p))) continue;
      here_[p] = !staged(p);
      home_[p] = staged(p);
      if (!uses.of_part[p].empty()) now_in_[p] = next_gap_[p]++;
    }
  }

  std::vector<event> events() {
    for (position at = 0; at < uses_.end(); ++at) {
      now_ = at;
      const auto i = static_cast<std::size_t>(at);
      for (const part_id p : back_[i]) {
        if (!here_[p]) fetch(p);
      }
      bring_inputs(at);
      compute_at(at);
      for (const touched_part& x : uses_.of_position[i]) use_ends(x.which, at);
      for (const std::uint32_t x : leave_[i]) {
        if (here_[gaps_[x].part] && now_in_[gaps_[x].part] == x) evict_now(gaps_[x].part);
      }
    }
    return without_needless();
  }

 private:
  role use_of(part_id p) const { return g_.tensors[uses_.parts[p].what].use; }
  bool staged(part_id p) const { return staged_[uses_.parts[p].what]; }

  void index_transfers() {
    back_.resize(uses_.order.size());
    leave_.resize(uses_.order.size());
    for (std::uint32_t x = 0; x < gaps_.size(); ++x) {
      const gap& e = gaps_[x];
      const bool stays_home = e.last < 0 && staged(e.part) && decisions_[x].what == choice::keep;
      if (decisions_[x].what == choice::again && !e.again) refuse(e, "computed again");
      if (stays_home) back_[0].push_back(e.part);
      const bool must_leave = e.next == uses_.end() && staged(e.part);
      if (must_leave && decisions_[x].what == choice::keep)
        leave_[static_cast<std::size_t>(e.last)].push_back(x);
      if (decisions_[x].what != choice::swap) continue;
      const position first = e.last + 1;
      const position back = std::clamp(decisions_[x].back, first, std::max(e.next, first));
      if (e.next < uses_.end()) back_[static_cast<std::size_t>(back)].push_back(e.part);
      if (e.last < 0) continue;
      const position leave = std::clamp(decisions_[x].leave, e.last, std::max(e.last, back - 1));
      leave_[static_cast<std::size_t>(leave)].push_back(x);
    }
    const auto next_use = [&](position at) {
      return [this, at](part_id p) {
        const auto& all = uses_.of_part[p];
        return std::ranges::lower_bound(all, at, {}, &use::at)->at;
      };
    };
    for (position at = 0; at < uses_.end(); ++at)
      std::ranges::stable_sort(back_[static_cast<std::size_t>(at)], {}, next_use(at));
  }

  [[noreturn]] void refuse(const gap& e, const std::string& how) const {
    throw std::invalid_argument("tensor " + g_.tensors[uses_.parts[e.part].what].name + " cannot be " + how);
  }

  // --- events ---

  void emit(verb what, std::uint32_t which) { events_.push_back({what, which}); }

  void fetch(part_id p) {
    emit(verb::prefetch, p);
    here_[p] = true;
  }
  void evict_now(part_id p) {
    emit(verb::evict, p);
    here_[p] = false;
    home_[p] = true;
  }
  void discard_now(part_id p) {
    emit(verb::discard, p);
    here_[p] = home_[p] = false;
  }
  void compute_at(position at) {
    emit(verb::compute, static_cast<std::uint32_t>(at));
    for (const touched_part& x : uses_.of_position[static_cast<std::size_t>(at)]) {
      if (x.mode == access_mode::read) continue;
      here_[x.which] = true;
      home_[x.which] = false;
    }
  }

  // What a compute reads and is not there is fetched, or computed again in the order of the first time, each
  // but once; what that took stays until the last of those has read it.
  void bring_inputs(position at) {
    runs_.clear();
    for (const touched_part& x : uses_.of_position[static_cast<std::size_t>(at)]) {
      if (x.mode != access_mode::write) need(x.which, at);
    }
    std::ranges::sort(runs_);
    for (const position run : runs_) {
      fetch_inputs(run);
      made_.clear();
      for (const touched_part& x : uses_.of_position[static_cast<std::size_t>(run)]) {
        if (x.mode != access_mode::read && !here_[x.which]) made_.push_back(x.which);
      }
      compute_at(run);
      for (const part_id p : made_) {
        if (reader_[p] < 0) give_up_again(p);
      }
      for (const touched_part& x : uses_.of_position[static_cast<std::size_t>(run)]) {
        if (x.mode == access_mode::read && reader_[x.which] == run) give_up_again(x.which);
      }
    }
    fetch_inputs(at);
    for (const part_id p : needed_) reader_[p] = -1;
    needed_.clear();
  }

  // reader_: the last position that needs a part which is not there.
  void need(part_id p, position reader) {
    if (here_[p]) return;
    const bool known = reader_[p] >= 0;
    reader_[p] = std::max(reader_[p], reader);
    if (known) return;
    needed_.push_back(p);
    if (staged(p) && home_[p]) return;
    const std::vector<use>& all = uses_.of_part[p];
    const auto by = std::ranges::find_if(all, [](const use& u) { return u.mode != access_mode::read; });
    if (by == all.end() || by->at >= now_) {
      throw std::invalid_argument("tensor " + g_.tensors[uses_.parts[p].what].name +
                                  " is needed before it was computed, or where nothing can bring it back");
    }
    if (std::ranges::find(runs_, by->at) != runs_.end()) return;
    runs_.push_back(by->at);
    for (const touched_part& x : uses_.of_position[static_cast<std::size_t>(by->at)]) {
      if (x.mode != access_mode::write) need(x.which, by->at);
    }
  }
  void fetch_inputs(position at) {
    for (const touched_part& x : uses_.of_position[static_cast<std::size_t>(at)]) {
      if (x.mode != access_mode::write && !here_[x.which]) fetch(x.which);
    }
  }

  // Behind a use that is not its own: unless its decision is that it stays from now on.
  void give_up_again(part_id p) {
    if (now_in_[p] == none) return discard_now(p);
    const decision& d = decisions_[now_in_[p]];
    if (d.what == choice::keep || (d.what == choice::again && now_ >= d.back)) return;
    if (d.what == choice::again) return discard_now(p);
    const gap& e = gaps_[now_in_[p]];
    if (e.next < uses_.end() && now_ >= std::clamp(d.back, e.last + 1, e.next)) return;
    evict_now(p);
  }

  void use_ends(part_id p, position at) {
    const std::uint32_t x = next_gap_[p];
    const bool in_gap = x < gaps_.size() && gaps_[x].part == p && gaps_[x].last == at;
    const std::vector<use>& all = uses_.of_part[p];
    if (in_gap) ++next_gap_[p];
    now_in_[p] = in_gap ? x : none;
    if (in_gap ? decisions_[x].what == choice::again : all.back().at == at && !survives(use_of(p)))
      discard_now(p);
  }

  // Discards of what nothing touches afterwards say nothing.
  std::vector<event> without_needless() const {
    std::vector<bool> later(uses_.parts.size(), false);
    std::vector<event> kept;
    for (std::size_t i = events_.size(); i-- > 0;) {
      const event& e = events_[i];
      if (e.what == verb::discard && !later[e.which]) continue;
      if (e.what == verb::compute) {
        for (const touched_part& x : uses_.of_position[e.which]) later[x.which] = true;
      } else {
        later[e.which] = true;
      }
      kept.push_back(e);
    }
    std::ranges::reverse(kept);
    return kept;
  }

  const graph& g_;
  const use_table& uses_;
  std::span<const gap> gaps_;
  std::span<const decision> decisions_;
  std::vector<bool> staged_, here_, home_;  // per tensor; per part: on the device, a valid copy at home
  std::vector<std::uint32_t> now_in_;       // per part: the gap it is in, or none
  std::vector<std::uint32_t> next_gap_;     // per part
  std::vector<std::vector<part_id>> back_;  // per position: what comes back before it
  std::vector<std::vector<std::uint32_t>> leave_;  // per position: gaps whose part leaves behind it
  std::vector<event> events_;
  std::vector<position> reader_;
  std::vector<part_id> needed_, made_;
  std::vector<position> runs_;  // to compute again before the compute at hand
  position now_ = 0;
};

}  // namespace

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
  return building(g, uses, gaps, decisions).events();
}

memory_plan plan_of(const graph& g, const use_table& uses, std::span<const gap> gaps,
                    std::span<const decision> decisions) {
  memory_plan plan;
  for (const bool is_staged : staged_tensors(uses, gaps, decisions))
    plan.home.push_back(is_staged ? residence::staged : residence::device);
  for (const event& e : events_of(g, uses, gaps, decisions)) {
    if (e.what == verb::compute) {
      plan.actions.emplace_back(uses.order[e.which]);
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
