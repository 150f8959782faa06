#include "hints/timing.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/lifetimes.hpp"
#include "core/lower.hpp"
#include "hints/durations.hpp"
#include "schedule/calendar.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

struct run_of_blocks {
  tensor_id of = 0;
  std::size_t begin = 0, end = 0;
};

// An action with what it touches and when.
struct item {
  action what;
  std::vector<run_of_blocks> blocks;
  std::vector<tensor_id> begins;  // compute: tensors that nothing before it touches
  nanoseconds starts = 0;         // compute: were nothing in the way; what gives up: its turn in its lane
  std::uint64_t held = 0;         // blocks resident behind it
  std::int64_t change = 0;        // of them, by this action
};

bool is_compute(const item& i) {
  return std::holds_alternative<compute>(i.what);
}
bool gives_up(const item& i) {
  return std::holds_alternative<evict>(i.what) || std::holds_alternative<discard>(i.what);
}

bool copies(const item& i) {
  return std::holds_alternative<evict>(i.what);
}

bool meet(const run_of_blocks& x, const run_of_blocks& y) {
  return x.begin < y.end && y.begin < x.end;
}
bool meet(const item& a, const item& b) {
  return std::ranges::any_of(a.blocks, [&](const run_of_blocks& x) {
    return std::ranges::any_of(b.blocks, [&](const run_of_blocks& y) { return meet(x, y); });
  });
}
class timetable {
 public:
  timetable(const problem& p, const memory_plan& plan, packer how)
      : p_(p), g_(p.network), plan_(plan), where_(managed_layout(p, plan, how)) {
    problem unlimited = p;
    unlimited.budget = std::numeric_limits<byte_count>::max();
    unlimited.under = pressure::driver;
    const execution_plan whole = lower(unlimited, plan, how);
    capacity_ = (p.budget - std::min(p.budget, whole.device_arena_bytes)) / managed_block;
    resident_.assign(whole.managed_arena_bytes / managed_block, false);
    for (const action& a : plan.actions) items_.push_back({a, blocks_of(a), {}, 0, 0, 0});
    look_at_computes();
  }

  memory_plan plan() {
    move_evictions_up();
    for (int iteration = 0; iteration < 2; ++iteration) walk();
    take_turns();
    for (std::size_t i = items_.size(); i-- > 0;) {
      if (copies(items_[i])) leave_later(i);
    }
    memory_plan timed{plan_.home, {}};
    for (const item& i : items_) timed.actions.push_back(i.what);
    return timed;
  }

 private:
  // --- what actions touch ---

  std::vector<run_of_blocks> blocks_of(const action& a) const {
    std::vector<run_of_blocks> all;
    std::visit(overloaded{[](const advise&) {},
                          [&](const compute& c) {
                            for (const access& x : accesses_of(g_, g_.ops[c.what], c.part)) {
                              for (const range& r : runs_of(g_.tensors[x.what], x.where)) add(all, x.what, r);
                            }
                          },
                          [&](const auto& m) { add_part(all, m.what, m.part); }},
               a);
    return all;
  }
  void add(std::vector<run_of_blocks>& all, tensor_id t, const range& r) const {
    if (where_[t].bytes == 0) return;
    const byte_count begin = where_[t].offset + r.offset, end = begin + r.bytes;
    all.push_back({t, static_cast<std::size_t>(begin / managed_block),
                   static_cast<std::size_t>((end + managed_block - 1) / managed_block)});
  }
  // With the blocks that it shares with its neighbours.
  void add_part(std::vector<run_of_blocks>& all, tensor_id t, const box& part) const {
    const range only = batch_range(g_.tensors[t], part);
    const bool is_last = only.offset + only.bytes == bytes_of(g_.tensors[t]);
    const byte_count end = is_last ? where_[t].bytes : only.offset + only.bytes;
    if (end > only.offset) add(all, t, {only.offset, end - only.offset});
  }

  bool moves_managed(const item& i) const {
    return std::visit(overloaded{[](const advise&) { return false; }, [](const compute&) { return false; },
                                 [&](const auto& m) { return is_managed(plan_.home[m.what]); }},
                      i.what);
  }

  void look_at_computes() {
    std::vector<bool> begun(g_.tensors.size(), false);
    nanoseconds now = 0;
    for (item& i : items_) {
      if (!is_compute(i)) continue;
      for (const run_of_blocks& r : i.blocks) {
        if (!begun[r.of]) i.begins.push_back(r.of);
        begun[r.of] = true;
      }
      i.starts = now;
      now += time_of(std::get<compute>(i.what));
    }
  }
  nanoseconds time_of(const compute& c) const {
    const auto whole = static_cast<std::uint64_t>(p_.costs[c.what].time);
    return static_cast<nanoseconds>(share_of(whole, g_, g_.ops[c.what], c.part));
  }

  // --- evictions ---

  void move_evictions_up() {
    for (std::size_t i = 0, left = items_.size(); left > 0; --left) {
      if (!gives_up(items_[i]) || !moves_managed(items_[i])) {
        ++i;
        continue;
      }
      const std::size_t to = behind_last_use(i);
      if (to > i) {
        move_down(i, to);
      } else {
        move_up(i++, to);
      }
    }
  }

  std::size_t behind_last_use(std::size_t i) const {
    std::size_t to = i;
    while (to > 0 && !meet(items_[to - 1], items_[i]) && !begins_at(items_[to - 1], items_[i])) --to;
    if (to > 0 || kills_a_result(items_[i])) return to;
    // What was last touched in the iteration before leaves at that one's end.
    std::size_t end = items_.size();
    while (end > i + 1 && !meet(items_[end - 1], items_[i])) --end;
    return end > i + 1 ? end - 1 : i;
  }

  // A tensor's addresses change hands as a whole with the first compute that touches it.
  bool begins_at(const item& before, const item& leaves) const {
    return std::ranges::any_of(before.begins, [&](tensor_id t) {
      const run_of_blocks all = whole(t);
      return std::ranges::any_of(leaves.blocks, [&](const run_of_blocks& x) { return meet(x, all); });
    });
  }

  run_of_blocks whole(tensor_id t) const {
    std::vector<run_of_blocks> all;
    add(all, t, {0, where_[t].bytes});
    return all.empty() ? run_of_blocks{t, 0, 0} : all.front();
  }

  // What a user may read once the iteration has ended.
  bool kills_a_result(const item& i) const {
    const auto* d = std::get_if<discard>(&i.what);
    return d != nullptr && survives(g_.tensors[d->what].use);
  }

  void move_up(std::size_t from, std::size_t to) {
    const auto begin = items_.begin() + static_cast<std::ptrdiff_t>(to);
    const auto at = items_.begin() + static_cast<std::ptrdiff_t>(from);
    std::rotate(begin, at, at + 1);
  }

  void move_down(std::size_t from, std::size_t to) {
    const auto at = items_.begin() + static_cast<std::ptrdiff_t>(from);
    std::rotate(at, at + 1, items_.begin() + static_cast<std::ptrdiff_t>(to) + 1);
  }

  void walk() {
    for (item& i : items_) {
      const std::uint64_t before = held_;
      const bool leaves = gives_up(i);
      if (!std::holds_alternative<advise>(i.what)) {
        for (const run_of_blocks& run : i.blocks) mark(run, !leaves);
      }
      i.held = held_;
      i.change = static_cast<std::int64_t>(held_) - static_cast<std::int64_t>(before);
    }
  }
  void mark(const run_of_blocks& run, bool resident) {
    for (std::size_t b = run.begin; b < run.end; ++b) {
      if (resident_[b] == resident) continue;
      resident_[b] = resident;
      resident ? ++held_ : --held_;
    }
  }

  // Discards take their turn at once, evictions what that leaves of the lane.
  void take_turns() {
    calendar lane;
    for (const bool copying : {false, true}) {
      nanoseconds used_until = 0;
      for (item& i : items_) {
        if (is_compute(i)) used_until = i.starts + time_of(std::get<compute>(i.what));
        if (gives_up(i) && moves_managed(i) && copies(i) == copying)
          i.starts = lane.take_early(used_until, time_to_go(i));
      }
    }
  }
  nanoseconds time_to_go(const item& i) const {
    std::uint64_t blocks = 0;
    for (const run_of_blocks& r : i.blocks) blocks += r.end - r.begin;
    const auto* e = std::get_if<evict>(&i.what);
    return e == nullptr ? time_to_discard(p_.on, blocks) : time_to_evict(p_.on, blocks, plan_.home[e->what]);
  }

  // Down the list to its turn, so that what comes before it in the lane does in the list.
  void leave_later(std::size_t from) {
    const item leaves = items_[from];
    const auto fits = [&](const item& next) {
      return static_cast<std::int64_t>(next.held) - leaves.change <= static_cast<std::int64_t>(capacity_);
    };
    std::size_t to = from;
    for (; to + 1 < items_.size(); ++to) {
      const item& next = items_[to + 1];
      if (is_compute(next) && next.starts >= leaves.starts) break;
      if (copies(next)) break;
      if (meet(next, leaves) || begins_at(next, leaves) || !fits(next)) break;
    }
    for (std::size_t k = from + 1; k <= to; ++k) items_[k].held -= static_cast<std::uint64_t>(leaves.change);
    items_[from].held = items_[to].held + static_cast<std::uint64_t>(leaves.change);
    move_down(from, to);
  }

  const problem& p_;
  const graph& g_;
  const memory_plan& plan_;
  std::vector<range> where_;
  std::vector<item> items_;
  std::vector<bool> resident_;
  std::uint64_t held_ = 0, capacity_ = 0;
};

nanoseconds time_of_copies(const machine& on, const execution_plan& steps) {
  byte_count in = 0, out = 0;
  for (const step& s : steps.steps) {
    if (s.home != residence::twinned || std::holds_alternative<discard>(s.what)) continue;
    for (const movement& m : s.moves) (std::holds_alternative<prefetch>(s.what) ? in : out) += m.device.bytes;
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

memory_plan with_evictions_timed(const problem& p, const memory_plan& plan, packer how) {
  return timetable(p, plan, how).plan();
}

nanoseconds expected_time(const problem& p, const memory_plan& plan, packer how) {
  const execution_plan steps = lower(p, plan, how);
  machine on = p.on;
  on.launch_ns += on.slice_ns;
  const profile costs = beside_copies(p, time_of_copies(p.on, steps));
  return simulate({p.network, steps, on, costs}, 3, false).back().duration;
}

}  // namespace um
