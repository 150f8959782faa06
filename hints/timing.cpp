#include "hints/timing.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/compute.hpp"
#include "core/residency.hpp"
#include "hints/durations.hpp"
#include "schedule/calendar.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

// A place between two actions that stay.
using slot = std::uint32_t;

// An action whose time can be chosen: an eviction or a discard of managed memory.
struct departure {
  action what;
  block_range blocks;
  slot from = 0, to = 0;  // where it may be: behind its last use, and before the next
  nanoseconds turn = 0;   // start in the lane to the host
  std::uint64_t released_blocks = 0;
};

bool copies(const departure& d) {
  return std::holds_alternative<evict>(d.what);
}

class timetable {
 public:
  timetable(const problem& p, const memory_plan& plan, const placement& at)
      : p_(p), g_(p.network), plan_(plan), placement_(at), begun_(g_.tensors.size(), false) {
    const std::size_t blocks = at.addresses.managed_bytes / managed_block;
    find_earliest(blocks);
    find_latest(blocks);
  }

  memory_plan plan(departure_time when) {
    memory_plan early = in_order();
    if (when == departure_time::early) return early;
    note_room(residency_of(g_, early, placement_.addresses, placement_.managed));
    take_turns();
    leave_later();
    return in_order();
  }

 private:
  bool moves(const action& a) const {
    return std::visit(overloaded{[&](const evict& x) { return is_managed(plan_.home[x.what]); },
                                 [&](const discard& x) { return is_managed(plan_.home[x.what]); },
                                 [](const auto&) { return false; }},
                      a);
  }

  // --- where it may be ---

  // Blocks that an action takes, needs or gives up. A tensor's addresses change hands as a whole with the
  // first compute that touches it, and a part counts with the blocks that it shares with its neighbours.
  std::vector<block_range> blocks_of(const action& a) {
    std::vector<block_range> all;
    std::visit(overloaded{[](const advise&) {}, [&](const compute& c) { add_operands(c, all); },
                          [&](const auto& x) { all.push_back(blocks_of(x.what, x.part)); }},
               a);
    return all;
  }
  block_range blocks_of(tensor_id t, const box& part) const {
    if (!is_managed(plan_.home[t]) || !placement_.managed.is_touched(t)) return {};
    const range only = batch_range(g_.tensors[t], part);
    return um::blocks_of({placement_.managed.offset_of(t) + only.offset, only.bytes});
  }
  void add_operands(const compute& c, std::vector<block_range>& all) {
    for (const access& x : accesses_of(g_, c)) {
      if (!is_managed(plan_.home[x.what])) continue;
      const bool begins = !begun_[x.what];
      begun_[x.what] = true;
      if (begins) all.push_back(blocks_of(x.what, {}));
      for (range r : runs_of(g_.tensors[x.what], x.where)) {
        r.offset += placement_.managed.offset_of(x.what);
        all.push_back(um::blocks_of(r));
      }
    }
  }

  // Behind the last action before it that meets its blocks; what was last used in the iteration before leaves
  // at that one's end.
  void find_earliest(std::size_t blocks) {
    std::vector<slot> last(blocks, 0);
    for (const action& a : plan_.actions) {
      if (!moves(a)) {
        met_.push_back(blocks_of(a));
        stay_.push_back(a);
        for (const block_range& r : met_.back())
          std::fill(last.begin() + at(r.begin), last.begin() + at(r.end), end());
        continue;
      }
      departure d{a, blocks_of(a).front()};
      d.from = most_in(last, d.blocks);
      leaving_.push_back(d);
    }
    for (departure& d : leaving_) {
      if (d.from == 0 && !kills_a_result(d)) d.from = most_in(last, d.blocks);
    }
  }
  static std::ptrdiff_t at(std::size_t b) { return static_cast<std::ptrdiff_t>(b); }
  static slot most_in(const std::vector<slot>& last, const block_range& r) {
    slot most = 0;
    for (std::size_t b = r.begin; b < r.end; ++b) most = std::max(most, last[b]);
    return most;
  }
  slot end() const { return static_cast<slot>(stay_.size()); }

  // What a user may read once the iteration has ended.
  bool kills_a_result(const departure& d) const {
    const auto* x = std::get_if<discard>(&d.what);
    return x != nullptr && survives(g_.tensors[x->what].use);
  }

  // Before the next action that meets its blocks.
  void find_latest(std::size_t blocks) {
    std::vector<std::vector<std::size_t>> in_slot(stay_.size() + 1);
    for (std::size_t i = 0; i < leaving_.size(); ++i) in_slot[leaving_[i].from].push_back(i);
    std::vector<slot> next(blocks, end());
    for (slot s = end() + 1; s-- > 0;) {
      for (const std::size_t i : in_slot[s]) {
        leaving_[i].to = end();
        for (std::size_t b = leaving_[i].blocks.begin; b < leaving_[i].blocks.end; ++b)
          leaving_[i].to = std::min(leaving_[i].to, next[b]);
      }
      if (s == 0) break;
      for (const block_range& r : met_[s - 1])
        std::fill(next.begin() + at(r.begin), next.begin() + at(r.end), s - 1);
    }
  }

  // --- room and turns ---

  // The plan with all departures in their slots. Within a slot discards come first, so that they do not wait
  // for copies.
  memory_plan in_order() {
    std::ranges::stable_sort(leaving_, {}, [](const departure& d) { return std::pair(d.from, copies(d)); });
    memory_plan made{plan_.home, {}};
    auto next = leaving_.begin();
    for (slot s = 0; s <= end(); ++s) {
      for (; next != leaving_.end() && next->from == s; ++next) made.actions.push_back(next->what);
      if (s < end()) made.actions.push_back(stay_[s]);
    }
    return made;
  }

  // Blocks in use behind each action that stays, and what each departure frees.
  void note_room(const residency& found) {
    held_.assign(stay_.size(), 0);
    std::size_t i = 0;
    auto next = leaving_.begin();
    for (slot s = 0; s <= end(); ++s) {
      for (; next != leaving_.end() && next->from == s; ++next)
        next->released_blocks = found.changes[i++].released_blocks;
      if (s < end()) held_[s] = found.resident_blocks[i++];
    }
  }

  nanoseconds time_of(slot s) const {
    const auto* c = std::get_if<compute>(&stay_[s]);
    if (c == nullptr) return 0;
    const auto whole = static_cast<std::uint64_t>(p_.costs[c->what].time);
    return static_cast<nanoseconds>(share_of(whole, g_, g_.ops[c->what], c->part));
  }
  nanoseconds time_to_go(const departure& d) const {
    const std::uint64_t blocks = d.blocks.end - d.blocks.begin;
    const auto* e = std::get_if<evict>(&d.what);
    return e == nullptr ? time_to_discard(p_.on, blocks) : time_to_evict(p_.on, blocks, plan_.home[e->what]);
  }

  // Discards take time on the lane first; copies take what is left of it.
  void take_turns() {
    starts_.assign(stay_.size() + 1, 0);
    for (slot s = 0; s < end(); ++s) starts_[s + 1] = starts_[s] + time_of(s);
    calendar lane;
    for (const bool copying : {false, true}) {
      for (departure& d : leaving_) {
        if (copies(d) == copying) d.turn = lane.take_early(starts_[d.from], time_to_go(d));
      }
    }
  }

  // Moves each copy later until its turn comes. It stops earlier where the budget ends, and never passes the
  // copy that follows.
  void leave_later() {
    const std::uint64_t capacity = placement_.blocks_within(p_.budget);
    slot before = end();
    for (auto d = leaving_.rbegin(); d != leaving_.rend(); ++d) {
      if (!copies(*d)) continue;
      const slot last = std::min(before, d->to);
      while (d->from < last && !is_due(*d) && held_[d->from] + d->released_blocks <= capacity) {
        held_[d->from++] += d->released_blocks;
      }
      before = d->from;
    }
  }
  bool is_due(const departure& d) const {
    return std::holds_alternative<compute>(stay_[d.from]) && starts_[d.from] >= d.turn;
  }

  const problem& p_;
  const graph& g_;
  const memory_plan& plan_;
  const placement& placement_;
  std::vector<bool> begun_;                    // per tensor
  std::vector<action> stay_;                   // actions at fixed places; slot s lies before number s
  std::vector<std::vector<block_range>> met_;  // by each of them
  std::vector<departure> leaving_;
  std::vector<std::uint64_t> held_;  // blocks, behind each that stays
  std::vector<nanoseconds> starts_;  // start of each action that stays, if nothing delayed it
};

nanoseconds time_of_copies(const machine& on, const execution_plan& steps) {
  byte_count in = 0, out = 0;
  for (const step& s : steps.steps) {
    if (s.home != residence::twinned || std::holds_alternative<discard>(s.what)) continue;
    for (const movement& m : s.movements)
      (std::holds_alternative<prefetch>(s.what) ? in : out) += m.device.bytes;
  }
  return (in == 0 ? 0 : time_at(in, rate_from_twin(on))) + (out == 0 ? 0 : time_at(out, rate_to_twin(on)));
}

// Operators that share the device with so much copying, in all.
profile beside_copies(const problem& p, nanoseconds copies) {
  nanoseconds all = 0;
  for (const op_cost& c : p.costs) all += c.time;
  profile slower = p.costs;
  const auto percent = static_cast<nanoseconds>(p.on.beside_copy_percent);
  const nanoseconds per_million = all == 0 ? 0 : copies * percent * 10'000 / all;
  for (op_cost& c : slower) c.time += c.time * per_million / 1'000'000;
  return slower;
}

}  // namespace

memory_plan with_evictions_timed(const problem& p, const memory_plan& plan, const placement& at,
                                 departure_time when) {
  return timetable(p, plan, at).plan(when);
}

nanoseconds expected_time(const problem& p, const execution_plan& steps) {
  machine on = p.on;
  on.launch_ns += on.slice_ns;
  const profile costs = beside_copies(p, time_of_copies(p.on, steps));
  return simulate({p.network, steps, on, costs}, 3).back().duration;
}

}  // namespace um
