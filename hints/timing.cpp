#include "hints/timing.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/lifetimes.hpp"
#include "core/lower.hpp"
#include "simulator/execute.hpp"

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
  std::uint64_t held = 0;         // blocks resident behind it
  std::int64_t change = 0;        // of them, by this action
  nanoseconds starts = 0;         // compute: were nothing in the way
  std::vector<tensor_id> begins;  // compute: tensors that nothing before it touches
  nanoseconds wanted = 0;         // prefetch: when to begin
};

bool is_compute(const item& i) {
  return std::holds_alternative<compute>(i.what);
}
bool gives_up(const item& i) {
  return std::holds_alternative<evict>(i.what) || std::holds_alternative<discard>(i.what);
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
    std::vector<bool> begun(g_.tensors.size(), false);
    for (const action& a : plan.actions) {
      items_.push_back({a, blocks_of(a), 0, 0, 0, {}, 0});
      if (!std::holds_alternative<compute>(a)) continue;
      for (const run_of_blocks& r : items_.back().blocks) {
        if (!begun[r.of]) items_.back().begins.push_back(r.of);
        begun[r.of] = true;
      }
    }
    nanoseconds now = 0;
    for (item& i : items_) {
      i.starts = now;
      if (is_compute(i)) now += time_of(std::get<compute>(i.what));
    }
  }

  memory_plan plan(std::int64_t slack_percent) {
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
    for (int iteration = 0; iteration < 2; ++iteration) walk();
    set_wanted_times(slack_percent);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (std::holds_alternative<prefetch>(items_[i].what)) call_earlier(i);
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
  void add_part(std::vector<run_of_blocks>& all, tensor_id t, const slice& s) const {
    const cut c{axis::batch, s.of};
    const byte_count begin = first_byte_of(g_.tensors[t], c, s.part);
    const byte_count end = s.part + 1 == s.of ? where_[t].bytes : first_byte_of(g_.tensors[t], c, s.part + 1);
    if (end > begin) add(all, t, {begin, end - begin});
  }

  bool moves_managed(const item& i) const {
    return std::visit(overloaded{[](const advise&) { return false; }, [](const compute&) { return false; },
                                 [&](const auto& m) { return is_managed(plan_.home[m.what]); }},
                      i.what);
  }

  nanoseconds time_of(const compute& c) const {
    const nanoseconds whole = p_.costs[c.what].time;
    return whole * (c.part.part + 1) / c.part.of - whole * c.part.part / c.part.of;
  }

  // --- evictions ---

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

  // --- prefetches ---

  // From the last to the first: each ends when its use or the next transfer begins.
  void set_wanted_times(std::int64_t slack_percent) {
    nanoseconds link_free = std::numeric_limits<nanoseconds>::max();
    for (std::size_t i = items_.size(); i-- > 0;) {
      const auto* f = std::get_if<prefetch>(&items_[i].what);
      if (f == nullptr) continue;
      const nanoseconds end = std::min(use_of(i), link_free);
      items_[i].wanted = end - duration_of(i, *f) * (100 + slack_percent) / 100;
      link_free = items_[i].wanted;
    }
  }

  nanoseconds use_of(std::size_t i) const {
    for (std::size_t k = i + 1; k < items_.size(); ++k) {
      if (is_compute(items_[k]) && meet(items_[k], items_[i])) return items_[k].starts;
    }
    return items_[i].starts;
  }

  bool holds_value(std::size_t i, tensor_id t) const {
    if (persists(g_.tensors[t].use)) return true;
    for (std::size_t k = 0; k < i; ++k) {
      const auto* c = std::get_if<compute>(&items_[k].what);
      if (c != nullptr && std::ranges::find(g_.ops[c->what].out, t) != g_.ops[c->what].out.end()) return true;
    }
    return false;
  }

  nanoseconds duration_of(std::size_t i, const prefetch& f) const {
    const machine& on = p_.on;
    byte_count blocks = 0;
    for (const run_of_blocks& r : items_[i].blocks) blocks += r.end - r.begin;
    const nanoseconds call =
        on.uvm.prefetch_call_ns + 2 * on.uvm.prefetch_block_ns * static_cast<nanoseconds>(blocks);
    const std::uint64_t rate = on.link_to_device_bytes_per_s;
    if (!holds_value(i, f.what) || rate == 0) return call;
    return call + static_cast<nanoseconds>(static_cast<double>(blocks * managed_block) * 1e9 /
                                           static_cast<double>(rate));
  }

  // A compute on another tensor that has addresses in common with the one that is to come: its parts go one
  // by one, addresses change hands as a whole.
  bool belongs_to(const item& before, const item& comes) const {
    if (!is_compute(before)) return false;
    const tensor_id t = std::get<prefetch>(comes.what).what;
    const run_of_blocks all = whole(t);
    return std::ranges::any_of(before.blocks,
                               [&](const run_of_blocks& x) { return x.of != t && meet(whole(x.of), all); });
  }
  run_of_blocks whole(tensor_id t) const {
    std::vector<run_of_blocks> all;
    add(all, t, {0, where_[t].bytes});
    return all.empty() ? run_of_blocks{t, 0, 0} : all.front();
  }

  void call_earlier(std::size_t from) {
    const std::int64_t more = items_[from].change;
    const auto fits = [&](std::uint64_t held) {
      return static_cast<std::int64_t>(held) + more <= static_cast<std::int64_t>(capacity_);
    };
    std::size_t to = from;
    while (to > 0) {
      const item& before = items_[to - 1];
      if (meet(before, items_[from]) || belongs_to(before, items_[from]) || !fits(before.held)) break;
      if (!fits(to > 1 ? items_[to - 2].held : items_.back().held)) break;
      if (is_compute(before) && before.starts <= items_[from].wanted) break;
      if (std::holds_alternative<prefetch>(before.what) && before.wanted <= items_[from].wanted) break;
      --to;
    }
    for (std::size_t k = to; k < from; ++k) items_[k].held += static_cast<std::uint64_t>(more);
    items_[from].held =
        (to > 0 ? items_[to - 1].held : items_.back().held) + static_cast<std::uint64_t>(more);
    move_up(from, to);
  }

  const problem& p_;
  const graph& g_;
  const memory_plan& plan_;
  std::vector<range> where_;
  std::vector<item> items_;
  std::vector<bool> resident_;
  std::uint64_t held_ = 0, capacity_ = 0;
};

}  // namespace

memory_plan well_timed(const problem& p, const memory_plan& plan, packer how, std::int64_t slack_percent) {
  return timetable(p, plan, how).plan(slack_percent);
}

nanoseconds simulated_time(const problem& p, const memory_plan& plan, packer how) {
  const execution_plan steps = lower(p, plan, how);
  const simulated_run run{p.network, steps, p.on, p.costs};
  managed_memory memory = managed_at_start(run);
  nanoseconds last = 0;
  for (int iteration = 0; iteration < 3; ++iteration) last = run_iteration(run, memory, false).duration;
  return last;
}

}  // namespace um
