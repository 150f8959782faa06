// The decisions of `best`, with the data in managed memory.
#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "core/managed_map.hpp"
#include "core/residency.hpp"
#include "hints/hints.hpp"
#include "planners/best.hpp"
#include "planners/measured_parts.hpp"
#include "planners/order_of_use.hpp"
#include "planners/planners.hpp"

namespace um {
namespace {

// Which tensors become managed. In every scope a swapped tensor has a twin. A managed tensor holds its
// address range from its first use to its last. A recomputed tensor would be discarded and populated each
// time, so it stays in device memory.
enum class placement_scope : std::uint8_t {
  all_kept,          // all tensors that are neither swapped nor recomputed
  surviving,         // kept tensors whose values outlive the iteration
  persistent,        // kept tensors whose values exist when an iteration begins; gradients stay device memory
  persistent_large,  // the same without tensors smaller than a block, which would leave most of it empty
};

memory_plan in_managed_memory(const graph& g, memory_plan plan, placement_scope how) {
  std::vector<bool> discarded(g.tensors.size(), false);
  for (const action& a : plan.actions) {
    if (const auto* d = std::get_if<discard>(&a)) discarded[d->tensor] = true;
  }
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const role use = g.tensors[t].role;
    const bool fills = how != placement_scope::persistent_large || is_block_sized(g.tensors[t]);
    const bool lasts = fills && (persists(use) || (how == placement_scope::surviving && survives(use)));
    residence& home = plan.residences[t];
    if (home == residence::staged) {
      home = residence::twinned;
    } else if (!discarded[t] && (lasts || how == placement_scope::all_kept)) {
      home = residence::managed;
    }
  }
  return plan;
}

// While managed memory moves, operators are launched one by one instead of as a recorded graph. Each such
// launch takes this much longer. Measured: results/study/README.md.
constexpr nanoseconds single_launch_time = 3000;

nanoseconds added_launch_time(const execution_plan& plan) {
  const auto alone = [](const step& s) { return s.launch == launch_method::as_operator; };
  return single_launch_time * std::ranges::count_if(plan.steps, alone);
}

// Whether all moved parts of tensors with a twin are whole blocks of managed memory; others cannot be moved.
bool moves_whole_blocks(const graph& g, const memory_plan& plan) {
  const auto fits = [&](tensor_id t, const box& part) {
    const byte_count bytes = bytes_of(g.tensors[t]);
    if (plan.residences[t] != residence::twinned || is_whole(part) || bytes < managed_block) return true;
    const auto images = g.tensors[t].shape.n;
    const byte_count each = bytes / static_cast<byte_count>(images);
    const region where = region_of(g.tensors[t].shape, part);
    return static_cast<byte_count>(where.batch.begin) * each % managed_block == 0 &&
           (where.batch.end == images ||
            static_cast<byte_count>(where.batch.end) * each % managed_block == 0);
  };
  return std::ranges::all_of(plan.actions, [&](const action& a) {
    if (const auto* x = std::get_if<prefetch>(&a)) return fits(x->tensor, x->part);
    if (const auto* x = std::get_if<evict>(&a)) return fits(x->tensor, x->part);
    if (const auto* x = std::get_if<discard>(&a)) return fits(x->tensor, x->part);
    return true;
  });
}

// The plan in managed memory; nothing if it moves parts of tensors that are not whole 2 MiB blocks.
std::optional<placed_plan> place_in_managed_memory(const problem& p, memory_plan managed) {
  if (std::ranges::none_of(managed.residences, is_managed))
    return std::nullopt;  // `best` finds plans without managed memory
  if (!moves_whole_blocks(p.network, managed)) return std::nullopt;
  problem kept = p;
  kept.evicted_by = evictor::plan;
  kept.budget = std::numeric_limits<byte_count>::max();
  const placement at(kept, managed, packers::searched);
  const residency used = residency_of(p.network, managed, at.addresses, at.managed);
  placed_plan placed{std::move(managed), at.addresses.device_bytes + used.peak_blocks() * managed_block, 0};
  if (placed.device_bytes <= p.budget) {
    const execution_plan steps = lower(p, placed.plan, at);
    placed.time = time_with_copy_price(p, steps, 2) + added_launch_time(steps);
  }
  return placed;
}

// A lower bound on the device memory of a plan with these residences: that of tensors in the device arena and
// of managed tensors that are never swapped. `lifetimes`: of the same actions, with all tensors on the device
// or staged.
byte_count min_device_bytes(const lifetime_table& lifetimes, const std::vector<residence>& residences) {
  const auto peak_of = [&](residence home) {
    return peak_bytes(lifetimes, [&](const lifetime& l) {
      return l.tensor != no_lifetime && residences[l.tensor] == home;
    });
  };
  return peak_of(residence::device) + peak_of(residence::managed);
}

// The memory that scope persistent may save compared with persistent_large, unless packing leaves gaps.
byte_count bytes_of_small_tensors(const graph& g) {
  byte_count bytes = 0;
  for (const tensor& t : g.tensors) {
    if (persists(t.role) && !is_block_sized(t)) bytes += round_up(bytes_of(t), arena_alignment);
  }
  return bytes;
}

// Returns the fastest plan that fits the budget; if none fits, one that takes little memory. persistent_large
// and persistent take the least memory, unless packing leaves gaps, and are tried first. If both are too
// large, the search ends.
std::optional<placed_plan> place_in_fastest_scope(problem p, const memory_plan& decided, byte_count budget) {
  p.budget = budget;
  std::optional<placed_plan> best;
  std::optional<lifetime_table> lifetimes;
  const byte_count small = bytes_of_small_tensors(p.network);
  int too_large = 0;
  for (const placement_scope how : {placement_scope::persistent_large, placement_scope::persistent,
                                    placement_scope::surviving, placement_scope::all_kept}) {
    memory_plan managed = in_managed_memory(p.network, decided, how);
    if (best && best->device_bytes <= budget) {
      if (!lifetimes) lifetimes = lifetimes_of(p, decided);
      if (min_device_bytes(*lifetimes, managed.residences) > budget) {
        if (++too_large == 2) break;
        continue;
      }
    }
    std::optional<placed_plan> now = place_in_managed_memory(p, std::move(managed));
    if (!now) continue;
    if (now->device_bytes > p.budget) ++too_large;
    const auto rank = [&](const placed_plan& t) {
      return std::tuple(std::max(t.device_bytes, p.budget), t.time);
    };
    if (!best || rank(*now) <= rank(*best)) best = std::move(now);
    if (too_large == 2 || best->device_bytes > budget + small) break;
  }
  return best;
}

// Times another strategy's plan, with its data where that strategy puts it.
std::optional<placed_plan> place_as_decided(problem p, memory_plan plan, byte_count budget) {
  p.budget = budget;
  if (std::ranges::none_of(plan.residences, is_managed)) return std::nullopt;
  const execution_plan steps = lower(p, plan, packers::searched);
  placed_plan placed{std::move(plan), steps.peak_device_bytes, 0};
  if (p.evicted_by == evictor::driver) placed.device_bytes = steps.device_arena_bytes;
  placed.time = time_with_copy_price(p, steps, 2) + added_launch_time(steps);
  return placed;
}

}  // namespace

memory_plan plan_best_managed(const problem& of) {
  const auto make = [](const problem& p) {
    const placer place{
        [&](const memory_plan& plan, byte_count budget) { return place_in_fastest_scope(p, plan, budget); },
        [&](memory_plan plan, byte_count budget) { return place_as_decided(p, std::move(plan), budget); }};
    if (footprint_of(p.network, p.operator_costs).total <= p.budget) {
      std::optional<placed_plan> resident = place.place_decided(plan_resident(p), p.budget);
      if (resident && resident->device_bytes <= p.budget) return std::move(resident->plan);
    }
    return plan_best(p, place, {"best_managed", true, hint_strategies()});
  };
  return plan_by_few_measurements(
      of, [&](const problem& p) { return plan_independent_of_numbering(p, make); },
      [](const problem& p, memory_plan plan) { return place_as_decided(p, std::move(plan), p.budget); });
}

}  // namespace um
