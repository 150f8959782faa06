#include "planners/within.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "core/liveness.hpp"
#include "core/lower.hpp"
#include "core/memory_plan.hpp"
#include "planners/best_place.hpp"

namespace um {
namespace {

// Gives each block memory of its own.
packing pack_apart(std::span<const block> blocks) {
  packing p;
  for (const block& b : blocks) {
    p.offsets.push_back(round_up(p.bytes, b.alignment));
    p.bytes = p.offsets.back();
    for (const piece& x : b.pieces) p.bytes = std::max(p.bytes, p.offsets.back() + x.offset + x.bytes);
  }
  return p;
}

// The plan's simulated time if all data had memory of its own, so that nothing waits for memory to be free.
nanoseconds time_without_reuse(problem p, const memory_plan& plan) {
  p.budget = std::numeric_limits<byte_count>::max();
  return simulated_time(p, lower(p, plan, packer{"apart", pack_apart}), 1);
}

// Whether the time is at least the time to beat after one part in `share` is taken off it.
bool is_slower_by(const problem& p, nanoseconds time, nanoseconds share) {
  return time - time / share >= p.time_to_beat;
}

// As packed_bytes_unless_slow(). Unless `even_if_slow`, also throws too_slow if the plan is likely to take
// a fourth longer than the time to beat and may not fit.
byte_count packed_bytes_if_worth(const problem& p, const memory_plan& plan, packer how,
                                 const std::string& strategy, bool even_if_slow) {
  if (p.time_to_beat == std::numeric_limits<nanoseconds>::max()) return packed_bytes(p, plan, how);
  // The simulated time without reuse is hardly ever longer than the plan's time. It is a closer estimate than
  // time_lower_bound(), and takes a fifth of the work of packing the plan.
  const nanoseconds least = time_without_reuse(with_estimates(p), plan);
  const bool is_slower = is_slower_by(p, least, 20);
  byte_count bytes = packed_bytes(p, plan, is_slower ? packers::first_fit : how);
  if (is_slower && bytes > p.budget) {
    if (!even_if_slow && is_slower_by(p, least, 5)) throw too_slow(strategy);
    bytes = packed_bytes(p, plan, how);
  }
  if (bytes <= p.budget && (is_slower || time_lower_bound(p, plan) >= p.time_to_beat))
    throw too_slow(strategy, true);
  return bytes;
}

}  // namespace

problem with_estimates(problem p) {
  if (!p.cost_of_slice) return p;
  p.cost_of_slice = [&g = p.network, &costs = p.operator_costs, &on = p.target,
                     timed = std::move(p.cost_of_slice)](const compute& c) {
    return is_whole(c.part) && c.cheap_recompute ? timed(c) : cost_of(g, costs, on, {}, c);
  };
  return p;
}

byte_count packed_bytes(problem p, const memory_plan& plan, packer how) {
  const byte_count budget = std::exchange(p.budget, std::numeric_limits<byte_count>::max());
  const byte_count estimated = lower(with_estimates(p), plan, how).device_arena_bytes;
  if (!p.cost_of_slice || estimated > budget) return estimated;
  return lower(p, plan, how).device_arena_bytes;
}

nanoseconds time_lower_bound(const problem& p, const memory_plan& plan) {
  nanoseconds computing = 0;
  byte_count fetched = 0;
  for (const action& a : plan.actions) {
    if (const auto* c = std::get_if<compute>(&a)) computing += cost_of(p, *c).time;
    const auto* f = std::get_if<prefetch>(&a);
    if (f == nullptr || plan.residences[f->tensor] != residence::staged) continue;
    const tensor& t = p.network.tensors[f->tensor];
    fetched += bytes_of(t, region_of(t.shape, f->part));
  }
  const std::uint64_t rate = p.target.link_to_device_bytes_per_s;
  return rate == 0 || fetched == 0 ? computing : std::max(computing, time_at(fetched, rate));
}

bool is_clearly_slower(const problem& p, const memory_plan& plan) {
  if (p.time_to_beat == std::numeric_limits<nanoseconds>::max()) return false;
  return is_slower_by(p, time_lower_bound(with_estimates(p), plan), 10);
}

nanoseconds swap_time_lower_bound(const problem& p) {
  const graph& g = p.network;
  std::vector<std::optional<index_range>> used = touched_ranges(g);
  for (const op& o : g.ops) {  // in-place outputs take no memory of their own while the input is in use
    if (o.alias) used[o.out[o.alias->output]]->first = used[o.in[o.alias->input]]->last;
  }
  std::vector<byte_count> ends(g.ops.size());  // per operator: bytes of tensors last used there
  std::vector<byte_count> begins(g.ops.size());
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    if (!used[t] || used[t]->first >= used[t]->last) continue;
    begins[used[t]->first] += bytes_of(g.tensors[t]);
    ends[used[t]->last] += bytes_of(g.tensors[t]);
  }
  nanoseconds computing = 0, most = 0;
  byte_count live = 0;  // bytes that live after an operator
  for (op_id o = 0; o < g.ops.size(); ++o) {
    computing += p.operator_costs[o].time;
    live = live + begins[o] - ends[o];
    const std::uint64_t rate = p.target.link_to_device_bytes_per_s;
    if (live <= p.budget) continue;
    if (p.target.host_bytes > 0 && live - p.budget > p.target.host_bytes)
      return std::numeric_limits<nanoseconds>::max();
    if (rate > 0) most = std::max(most, computing + time_at(live - p.budget, rate));
  }
  return std::max(computing, most);
}

byte_count packed_bytes_unless_slow(const problem& p, const memory_plan& plan, packer how,
                                    const std::string& strategy) {
  return packed_bytes_if_worth(p, plan, how, strategy, true);
}

memory_plan plan_within(const problem& p, packer how, const std::string& strategy,
                        const std::function<memory_plan(byte_count room)>& make) {
  byte_count room = p.budget, arena = 0, infeasible_room = 0, unpacked_room = p.budget;
  for (int tries = 0; tries < 12; ++tries) {
    try {
      memory_plan plan = make(room);
      if (is_clearly_slower(p, plan)) throw too_slow(strategy);
      arena = packed_bytes_if_worth(p, plan, how, strategy, false);
      if (arena <= p.budget) return plan;
      unpacked_room = room;
      room -= std::min(room, (arena - p.budget) / 2 + p.budget / 500);
    } catch (const too_slow&) {
      throw;
    } catch (const infeasible&) {
      if (tries == 0) throw;
      infeasible_room = room;
    }
    if (room <= infeasible_room) room = infeasible_room + (unpacked_room - infeasible_room) / 2;
  }
  throw infeasible(strategy + " finds no plan that packs into the budget: the last that it made takes " +
                   to_text(arena) + ", the budget is " + to_text(p.budget));
}

}  // namespace um
