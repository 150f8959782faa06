#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>

#include "core/errors.hpp"
#include "planners/feature_maps.hpp"
#include "planners/order_of_use.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"
#include "schedule/milp/gap_optimum.hpp"
#include "schedule/notes.hpp"
#include "schedule/orders.hpp"

namespace um {
namespace {

constexpr byte_count smallest_object = MiB;
constexpr std::uint32_t most_sections = 64;

byte_count largest_operand_bytes(const graph& g, const op& o) {
  byte_count most = 0;
  for (const auto* operands : {&o.in, &o.out}) {
    for (const tensor_id t : *operands) {
      if (!belongs_to_parameter(g.tensors[t].role)) most = std::max(most, bytes_of(g.tensors[t]));
    }
  }
  return most;
}

// Cuts each operator's batch so that a section of its largest operand is no larger than the network's largest
// operand divided by `sections`. An operator ends all its sections before the next one begins.
std::vector<compute> order_in_sections(const graph& g, std::uint32_t sections) {
  byte_count largest = 1;
  for (const op& o : g.ops) largest = std::max(largest, largest_operand_bytes(g, o));
  loop_nest all;
  for (op_id o = 0; o < g.ops.size() && sections > 1; ++o) {
    const std::uint64_t parts = (largest_operand_bytes(g, g.ops[o]) * sections + largest - 1) / largest;
    auto cuts = std::bit_ceil(static_cast<std::uint32_t>(std::max<std::uint64_t>(parts, 1)));
    while (cuts > 1 && !can_split_batch(g, g.ops[o], cuts)) cuts /= 2;
    if (cuts > 1) all.inner_loops.push_back({o, o + 1, cuts});
  }
  return make_order(g, all);
}

class section_planner {
 public:
  section_planner(const problem& p, std::uint32_t sections)
      : p_(p),
        uses_(make_use_table(p.network, order_in_sections(p.network, sections))),
        gaps_(find_gaps(p.network, uses_)),
        forecaster_(p, uses_),
        builder_(p.network, uses_, gaps_) {
    const std::vector<decision> all_kept(gaps_.size());
    const std::vector<event> events = build_events(p.network, uses_, gaps_, all_kept);
    forecaster_.forecast_memory(events, find_staged_tensors(uses_, gaps_, all_kept));
    live_bytes_ = live_at_positions(uses_, events, forecaster_.live_bytes());
    for (position at = 0; at < uses_.end(); ++at) {
      min_memory_ = std::max(min_memory_, touched_bytes(p.network, uses_, at, [](part_id) { return true; }));
      start_times_.push_back(start_times_.back() + forecaster_.compute_time(at));
    }
  }

  nanoseconds time_of(const std::vector<decision>& decisions) {
    return forecaster_
        .forecast(build_events(p_.network, uses_, gaps_, decisions),
                  find_staged_tensors(uses_, gaps_, decisions))
        .time;
  }
  nanoseconds compute_time() const { return start_times_.back(); }
  memory_plan plan(const std::vector<decision>& decisions) const {
    return make_plan(p_.network, uses_, gaps_, decisions);
  }

  // Where memory is short, swaps the section with the furthest next use (Belady 1966; among equals one with a
  // host copy) or the longest gap. It returns as early as there is room, in the order of use. Tries
  // several amounts of memory reserved for running copies and returns the fastest decisions. Once some
  // decisions fit, skips those that cannot beat problem::time_to_beat. Before that it does not, since
  // plan_within() needs the packed size to choose the next room, unless the plan is much too slow.
  std::vector<decision> swap_by_next_use(byte_count room, const std::string& name) {
    if (min_memory_ > room) throw infeasible(budget_too_small_text(p_, name, min_memory_));
    std::vector<decision> best;
    nanoseconds least = 0;
    byte_count peak = std::numeric_limits<byte_count>::max();
    constexpr byte_count max_sixteenths_spared = 8;
    for (byte_count i = 0; i < 4 * max_sixteenths_spared; ++i) {
      const bool longest_first = i % 2 == 1, may_delay_first_fetch = i >= 2 * max_sixteenths_spared;
      if (may_delay_first_fetch && !best.empty()) break;
      std::vector<decision> decisions = choose_swaps(room - room * (i / 2 % max_sixteenths_spared) / 16,
                                                     longest_first, may_delay_first_fetch);
      if (!best.empty() && time_lower_bound(p_, plan(decisions)) >= p_.time_to_beat) continue;
      const fit_result found = fit_transfers(builder_, uses_, gaps_, forecaster_, room, decisions);
      peak = std::min(peak, found.peak);
      if (found.peak > room) continue;
      const nanoseconds time = time_of(decisions);
      if (!best.empty() && time >= least) continue;
      least = time;
      best = std::move(decisions);
    }
    if (best.empty()) throw infeasible(budget_too_small_text(p_, name, peak));
    return best;
  }

  // Decisions of the integer program; nothing if it finds none within `room`.
  std::optional<std::vector<decision>> solve_program(byte_count room) {
    gap_program_options what;
    what.memory_bytes = room;
    what.recomputes = false;
    what.min_part_bytes = smallest_object;
    what.max_slots = static_cast<std::size_t>(p_.knobs.at("slots"));
    std::vector<decision> start;
    try {
      start = swap_by_next_use(room, "tvdnn");
    } catch (const infeasible&) {
    }
    gap_solution s =
        minimize(p_, uses_, gaps_, forecaster_, live_bytes_, what, {0.002, p_.knobs.at("nodes")}, start);
    note_optimality_gap(s);
    if (!s.is_feasible) return std::nullopt;
    const auto events = build_events(p_.network, uses_, gaps_, s.decisions);
    if (forecaster_.forecast_memory(events, find_staged_tensors(uses_, gaps_, s.decisions)).peak > room)
      return std::nullopt;
    return std::move(s.decisions);
  }

 private:
  void note_optimality_gap(const gap_solution& s) const {
    const std::string size = std::to_string(s.column_count) + " columns, " + std::to_string(s.row_count) +
                             " rows, " + std::to_string(s.node_count) + " nodes";
    if (!s.is_feasible) return add_note("integer program: no solution found (" + size + ")");
    const double gap = 100 * static_cast<double>(s.time - s.bound) / static_cast<double>(s.time);
    std::string percent = std::to_string(gap);
    percent.resize(percent.find('.') + 2);
    add_note("integer program: within " + percent + " % of its bound (" + size + ")");
  }

  std::vector<decision> choose_swaps(byte_count room, bool longest_first, bool may_delay_first_fetch) const {
    std::vector<decision> decisions(gaps_.size());
    std::vector<std::uint32_t> by_start(gaps_.size());
    for (std::uint32_t x = 0; x < gaps_.size(); ++x) by_start[x] = x;
    std::ranges::stable_sort(by_start, {}, [&](std::uint32_t x) { return gaps_[x].last_use; });
    const bool can_move = has_link(p_.target);
    std::priority_queue<open_gap> open;
    byte_count away = 0;  // bytes of swapped parts that are off the device at this position
    // Per position: bytes of swapped parts that come back there.
    std::vector<byte_count> coming_back(uses_.order.size() + 1);
    std::size_t next = 0;  // index into by_start
    for (position at = 0; at < uses_.end(); ++at) {
      for (; next < by_start.size() && gaps_[by_start[next]].last_use < at; ++next) {
        const gap& e = gaps_[by_start[next]];
        if (can_move && can_leave(by_start[next], may_delay_first_fetch))
          open.push({e.next_use - (longest_first ? e.last_use : 0), e.has_host_copy, next});
      }
      const auto here = static_cast<std::size_t>(at);
      away -= coming_back[here];
      while (!open.empty() && live_bytes_[here] > away && live_bytes_[here] - away > room) {
        const std::uint32_t x = by_start[open.top().rank];
        open.pop();
        if (gaps_[x].next_use <= at) continue;  // it has ended
        swap(x, decisions);
        away += uses_.parts[gaps_[x].part].bytes;
        coming_back[static_cast<std::size_t>(gaps_[x].next_use)] += uses_.parts[gaps_[x].part].bytes;
      }
    }
    return decisions;
  }

  // A gap that may be swapped. The greatest is swapped first, among equals that of lowest rank.
  struct open_gap {
    position distance = 0;
    bool has_host_copy = false;
    std::size_t rank = 0;  // in the order of last uses
    bool operator<(const open_gap& other) const {
      return std::tuple(distance, has_host_copy, other.rank) <
             std::tuple(other.distance, other.has_host_copy, rank);
    }
  };

  const gap& first_gap(part_id p) const {
    return *std::ranges::lower_bound(gaps_, p, {}, [](const gap& other) { return other.part; });
  }

  // A part that starts on the host must be fetched first. Unless `may_delay_first_fetch`, computes must hide
  // that copy.
  bool can_leave(std::uint32_t x, bool may_delay_first_fetch) const {
    const part_id p = gaps_[x].part;
    const gap& first = first_gap(p);
    const bool hides = may_delay_first_fetch || first.last_use >= 0 ||
                       start_times_[static_cast<std::size_t>(first.next_use)] >=
                           forecaster_.copy_time(uses_.parts[p].bytes, lane::to_device);
    return hides && uses_.parts[p].bytes >= smallest_object;
  }

  void swap(std::uint32_t x, std::vector<decision>& decisions) const {
    const gap& e = gaps_[x];
    decisions[x] = {gap_choice::swap, e.last_use, e.last_use + 1};
    const gap& first = first_gap(e.part);
    if (first.last_use < 0)
      decisions[static_cast<std::size_t>(&first - gaps_.data())] = {gap_choice::swap, -1, 0};
  }

  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  forecaster forecaster_;
  event_builder builder_;
  byte_count min_memory_ = 0;                // operands of the largest compute
  std::vector<byte_count> live_bytes_;       // per position: bytes alive without swaps
  std::vector<nanoseconds> start_times_{0};  // per position: start time without copies
};

struct timed_plan {
  memory_plan plan;
  nanoseconds time = 0;
};

timed_plan plan_with_sections(const problem& p, std::uint32_t sections, const std::string& name,
                              bool solve_program) {
  section_planner s(p, sections);
  timed_plan found;
  byte_count packed_room = 0;
  found.plan = plan_within(p, packers::searched, name, [&](byte_count room) {
    packed_room = room;
    const std::vector<decision> decisions = s.swap_by_next_use(room, name);
    found.time = s.time_of(decisions);
    return s.plan(decisions);
  });
  // Solves the program for the room with which packing succeeded, then for slightly less.
  for (const byte_count percent : {100, 97, 94}) {
    if (!solve_program || found.time <= s.compute_time()) break;
    const byte_count room = packed_room * percent / 100;
    std::optional<std::vector<decision>> decisions = s.solve_program(room);
    if (!decisions) break;
    const nanoseconds time = s.time_of(*decisions);
    memory_plan plan = s.plan(*decisions);
    if (time >= found.time) break;
    if (packed_bytes(p, plan) > p.budget) continue;
    return {std::move(plan), time};
  }
  return found;
}

// Uses the fewest sections that fit, or twice as many if that is faster.
memory_plan plan_sections(const problem& p, const std::string& name, bool solve_program) {
  const auto asked = static_cast<std::uint32_t>(p.knobs.at("sections"));
  if (asked > 0) return plan_with_sections(p, asked, name, solve_program).plan;
  std::optional<timed_plan> best;
  bool fits = false;
  for (std::uint32_t sections = 1;; sections *= 2) {
    const bool is_last = fits || sections == most_sections;
    try {
      timed_plan other = plan_with_sections(p, sections, name, solve_program);
      if (sections == 1) return std::move(other.plan);
      fits = true;
      if (!best || other.time < best->time) best = std::move(other);
    } catch (const too_slow& slower) {
      if ((sections == 1 && slower.fits) || (is_last && !best)) throw;
      fits = fits || slower.fits;
    } catch (const infeasible&) {
      if (is_last && !best) throw;
    }
    if (is_last) return std::move(best->plan);
  }
}

}  // namespace

memory_plan plan_tvdnn(const problem& p) {
  return plan_independent_of_numbering(p,
                                       [](const problem& of) { return plan_sections(of, "tvdnn", false); });
}

memory_plan plan_tvdnn_ilp(const problem& p) {
  if (!has_mixed_solver()) throw unsupported("tvdnn_ilp: " + std::string(how_to_get_highs));
  return plan_sections(p, "tvdnn_ilp", true);
}

}  // namespace um
