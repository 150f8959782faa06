#include "hints/eviction_timing.hpp"

#include <algorithm>
#include <vector>

#include "core/memory_plan.hpp"
#include "core/residency.hpp"
#include "schedule/calendar.hpp"
#include "simulator/simulate.hpp"

namespace um {
namespace {

// Index of a point between two actions that do not move.
using insertion_point = std::uint32_t;

// An action whose time can be chosen: an eviction or a discard of managed memory.
struct departure {
  action what;
  block_range blocks;
  insertion_point chosen = 0;  // at first the earliest one: after its last use
  insertion_point latest = 0;  // before the next use
  nanoseconds turn = 0;        // start time in the lane to the host
  std::uint64_t released_blocks = 0;
};

bool is_eviction(const departure& d) {
  return std::holds_alternative<evict>(d.what);
}

class eviction_timetable {
 public:
  eviction_timetable(const problem& p, const memory_plan& retime, const placement& at)
      : problem_(p),
        graph_(p.network),
        plan_(retime),
        placement_(at),
        is_touched_(graph_.tensors.size(), false) {
    const std::size_t block_count = at.addresses.managed_bytes / managed_block;
    find_earliest_points(block_count);
    find_latest_points(block_count);
  }

  memory_plan retime(eviction_timing when) {
    memory_plan early = merge_actions();
    if (when == eviction_timing::early) return early;
    record_resident_blocks(residency_of(graph_, early, placement_.addresses, placement_.managed));
    schedule_lane();
    delay_evictions();
    return merge_actions();
  }

 private:
  bool is_movable(const action& a) const {
    return std::visit(overloaded{[&](const evict& x) { return is_managed(plan_.residences[x.tensor]); },
                                 [&](const discard& x) { return is_managed(plan_.residences[x.tensor]); },
                                 [](const auto&) { return false; }},
                      a);
  }

  // --- possible insertion points ---

  // Blocks that an action touches or releases. The first compute that touches a tensor takes over its whole
  // address range. A part includes the blocks that it shares with neighbours.
  std::vector<block_range> blocks_of(const action& a) {
    std::vector<block_range> all;
    std::visit(overloaded{[](const advise&) {}, [&](const compute& c) { add_operand_blocks(c, all); },
                          [&](const auto& x) { all.push_back(blocks_of(x.tensor, x.part)); }},
               a);
    return all;
  }
  block_range blocks_of(tensor_id t, const box& part) const {
    if (!is_managed(plan_.residences[t]) || !placement_.managed.is_touched(t)) return {};
    const range in_tensor = batch_range(graph_.tensors[t], part);
    return um::blocks_of({placement_.managed.offset_of(t) + in_tensor.offset, in_tensor.bytes});
  }
  void add_operand_blocks(const compute& c, std::vector<block_range>& all) {
    for (const access& x : accesses_of(graph_, c)) {
      if (!is_managed(plan_.residences[x.tensor])) continue;
      const bool begins = !is_touched_[x.tensor];
      is_touched_[x.tensor] = true;
      if (begins) all.push_back(blocks_of(x.tensor, {}));
      for (range r : runs_of(graph_.tensors[x.tensor], x.where)) {
        r.offset += placement_.managed.offset_of(x.tensor);
        all.push_back(um::blocks_of(r));
      }
    }
  }

  // Finds the earliest insertion point of each departure: after the last action that touches its blocks. A
  // tensor that was last used in the previous iteration may leave at the end of that iteration.
  void find_earliest_points(std::size_t block_count) {
    std::vector<insertion_point> last(block_count, 0);
    for (const action& a : plan_.actions) {
      if (!is_movable(a)) {
        touched_blocks_.push_back(blocks_of(a));
        fixed_actions_.push_back(a);
        for (const block_range& r : touched_blocks_.back())
          std::fill(last.begin() + at(r.begin), last.begin() + at(r.end), end());
        continue;
      }
      departure d{a, blocks_of(a).front()};
      d.chosen = latest_point_of(last, d.blocks);
      departures_.push_back(d);
    }
    for (departure& d : departures_) {
      if (d.chosen == 0 && !discards_result(d)) d.chosen = latest_point_of(last, d.blocks);
    }
  }
  static std::ptrdiff_t at(std::size_t b) { return static_cast<std::ptrdiff_t>(b); }
  static insertion_point latest_point_of(const std::vector<insertion_point>& last, const block_range& r) {
    insertion_point most = 0;
    for (std::size_t b = r.begin; b < r.end; ++b) most = std::max(most, last[b]);
    return most;
  }
  insertion_point end() const { return static_cast<insertion_point>(fixed_actions_.size()); }

  // Whether it discards a result that a user may read after the iteration.
  bool discards_result(const departure& d) const {
    const auto* x = std::get_if<discard>(&d.what);
    return x != nullptr && survives(graph_.tensors[x->tensor].role);
  }

  // Finds the latest insertion point of each departure: before the next action that touches its blocks.
  void find_latest_points(std::size_t block_count) {
    std::vector<std::vector<std::size_t>> at_point(fixed_actions_.size() + 1);
    for (std::size_t i = 0; i < departures_.size(); ++i) at_point[departures_[i].chosen].push_back(i);
    std::vector<insertion_point> next(block_count, end());
    for (insertion_point s = end() + 1; s-- > 0;) {
      for (const std::size_t i : at_point[s]) {
        departures_[i].latest = end();
        for (std::size_t b = departures_[i].blocks.begin; b < departures_[i].blocks.end; ++b)
          departures_[i].latest = std::min(departures_[i].latest, next[b]);
      }
      if (s == 0) break;
      for (const block_range& r : touched_blocks_[s - 1])
        std::fill(next.begin() + at(r.begin), next.begin() + at(r.end), s - 1);
    }
  }

  // --- memory, and turns in the lane to the host ---

  // The plan with all departures at their insertion points. Discards come first at a point, so that they do
  // not wait for copies.
  memory_plan merge_actions() {
    std::ranges::stable_sort(departures_, {},
                             [](const departure& d) { return std::pair(d.chosen, is_eviction(d)); });
    memory_plan made{plan_.residences, {}};
    auto next = departures_.begin();
    for (insertion_point s = 0; s <= end(); ++s) {
      for (; next != departures_.end() && next->chosen == s; ++next) made.actions.push_back(next->what);
      if (s < end()) made.actions.push_back(fixed_actions_[s]);
    }
    return made;
  }

  // Records the blocks in use after each fixed action, and the blocks that each departure frees.
  void record_resident_blocks(const residency& found) {
    resident_blocks_.assign(fixed_actions_.size(), 0);
    std::size_t i = 0;
    auto next = departures_.begin();
    for (insertion_point s = 0; s <= end(); ++s) {
      for (; next != departures_.end() && next->chosen == s; ++next)
        next->released_blocks = found.changes[i++].released_blocks;
      if (s < end()) resident_blocks_[s] = found.resident_blocks[i++];
    }
  }

  nanoseconds compute_time_after(insertion_point s) const {
    const auto* c = std::get_if<compute>(&fixed_actions_[s]);
    if (c == nullptr) return 0;
    const auto whole = static_cast<std::uint64_t>(problem_.operator_costs[c->op].time);
    return static_cast<nanoseconds>(share_of(whole, graph_, graph_.ops[c->op], c->part));
  }
  nanoseconds departure_duration(const departure& d) const {
    const std::uint64_t blocks = d.blocks.end - d.blocks.begin;
    const auto* e = std::get_if<evict>(&d.what);
    return e == nullptr ? discard_time(problem_.target, blocks)
                        : evict_time(problem_.target, blocks, plan_.residences[e->tensor]);
  }

  // Reserves lane time for discards first; evictions get the rest.
  void schedule_lane() {
    start_times_.assign(fixed_actions_.size() + 1, 0);
    for (insertion_point s = 0; s < end(); ++s) start_times_[s + 1] = start_times_[s] + compute_time_after(s);
    calendar lane;
    for (const bool evicting : {false, true}) {
      for (departure& d : departures_) {
        if (is_eviction(d) == evicting)
          d.turn = lane.book_first_free(start_times_[d.chosen], departure_duration(d));
      }
    }
  }

  // Delays each eviction until its turn comes or the budget is reached, but never past the eviction that
  // follows.
  void delay_evictions() {
    const std::uint64_t capacity = placement_.managed_blocks_within(problem_.budget);
    insertion_point before = end();
    for (auto d = departures_.rbegin(); d != departures_.rend(); ++d) {
      if (!is_eviction(*d)) continue;
      const insertion_point last = std::min(before, d->latest);
      while (d->chosen < last && !may_start(*d) &&
             resident_blocks_[d->chosen] + d->released_blocks <= capacity) {
        resident_blocks_[d->chosen++] += d->released_blocks;
      }
      before = d->chosen;
    }
  }
  bool may_start(const departure& d) const {
    return std::holds_alternative<compute>(fixed_actions_[d.chosen]) && start_times_[d.chosen] >= d.turn;
  }

  const problem& problem_;
  const graph& graph_;
  const memory_plan& plan_;
  const placement& placement_;
  std::vector<bool> is_touched_;       // per tensor
  std::vector<action> fixed_actions_;  // actions that do not move; insertion point s lies before action s
  std::vector<std::vector<block_range>> touched_blocks_;  // blocks that each of them touches
  std::vector<departure> departures_;
  std::vector<std::uint64_t> resident_blocks_;  // blocks in use after each fixed action
  std::vector<nanoseconds> start_times_;        // start of each fixed action if nothing delays it
};

// Time of all copies between twinned tensors and their twins on the host, both directions added up.
nanoseconds copy_time_of_twinned_tensors(const machine& target, const execution_plan& steps) {
  byte_count in = 0, out = 0;
  for (const step& s : steps.steps) {
    if (s.home != residence::twinned || std::holds_alternative<discard>(s.command)) continue;
    for (const managed_target& m : s.managed_targets)
      (std::holds_alternative<prefetch>(s.command) ? in : out) += m.device_range.bytes;
  }
  return (in == 0 ? 0 : time_at(in, rate_from_twin(target))) +
         (out == 0 ? 0 : time_at(out, rate_to_twin(target)));
}

// Costs of operators slowed down by copies of twins beside them, spread over all operators.
profile costs_slowed_by_copies(const problem& p, nanoseconds copy_time) {
  nanoseconds operator_time = 0;
  for (const op_cost& c : p.operator_costs) operator_time += c.time;
  profile slower = p.operator_costs;
  const auto percent = static_cast<nanoseconds>(p.target.beside_copy_percent);
  const nanoseconds per_million = operator_time == 0 ? 0 : copy_time * percent * 10'000 / operator_time;
  for (op_cost& c : slower) c.time += c.time * per_million / 1'000'000;
  return slower;
}

constexpr nanoseconds pages_per_block = managed_block / (4 * KiB);

nanoseconds link_time(byte_count blocks, std::uint64_t rate) {
  return rate == 0 ? 0 : time_at(blocks * managed_block, rate);
}

}  // namespace

memory_plan retime_evictions(const problem& p, const memory_plan& plan, const placement& at,
                             eviction_timing when) {
  return eviction_timetable(p, plan, at).retime(when);
}

nanoseconds expected_iteration_time(const problem& p, const execution_plan& steps) {
  machine target = p.target;
  target.launch_ns += target.slice_ns;
  const profile costs = costs_slowed_by_copies(p, copy_time_of_twinned_tensors(p.target, steps));
  return simulate({p.network, steps, target, costs}, 3).back().duration;
}

nanoseconds evict_time(const machine& m, byte_count blocks, residence home) {
  const auto count = static_cast<nanoseconds>(blocks);
  if (home == residence::twinned) {
    return m.launch_ns + std::max(link_time(blocks, rate_to_twin(m)), discard_time(m, blocks));
  }
  const nanoseconds mapped = count * pages_per_block * m.uvm.host_map_page_ns;
  return m.uvm.prefetch_to_host_call_ns + count * 2 * m.uvm.prefetch_block_ns +
         std::max(mapped, link_time(blocks, m.link_to_host_bytes_per_s));
}

nanoseconds discard_time(const machine& m, byte_count blocks) {
  return static_cast<nanoseconds>(blocks) * m.uvm.discard_block_ns;
}

}  // namespace um
