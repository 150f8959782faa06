// The decisions of `best`, with the data in managed memory.
#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "core/managed_map.hpp"
#include "core/verify.hpp"
#include "hints/hints.hpp"
#include "planners/best.hpp"
#include "planners/order_of_use.hpp"
#include "planners/planners.hpp"

namespace um {
namespace {

// Which tensors become managed. A swapped tensor has a twin under each choice. A managed tensor holds its
// range from its first use to its last. A tensor that is computed again would be discarded and populated each
// time, so it stays in device memory.
enum class placement_scope : std::uint8_t {
  everything,  // all others
  lasting,     // of them, what outlives an iteration
  given,       // of that, what an iteration begins with: gradients share the device's arena
  large,       // of that, what fills a block: most of the block of a smaller one would be empty
};

memory_plan in_managed_memory(const graph& g, memory_plan plan, placement_scope how) {
  std::vector<bool> given_up(g.tensors.size(), false);
  for (const action& a : plan.actions) {
    if (const auto* d = std::get_if<discard>(&a)) given_up[d->tensor] = true;
  }
  for (tensor_id t = 0; t < g.tensors.size(); ++t) {
    const role use = g.tensors[t].role;
    const bool fills = how != placement_scope::large || is_block_sized(g.tensors[t]);
    const bool lasts = fills && (persists(use) || (how == placement_scope::lasting && survives(use)));
    residence& home = plan.residences[t];
    if (home == residence::staged) {
      home = residence::twinned;
    } else if (!given_up[t] && (lasts || how == placement_scope::everything)) {
      home = residence::managed;
    }
  }
  return plan;
}

// An operator that is launched by itself, as it must be while managed memory moves, takes so much longer than
// in a recording of many. Measured: results/study/README.md.
constexpr nanoseconds launched_alone = 3000;

nanoseconds price_of_launches(const execution_plan& plan) {
  const auto alone = [](const step& s) { return s.launch == launch_method::as_operator; };
  return launched_alone * std::ranges::count_if(plan.steps, alone);
}

// Parts of a tensor with a twin can leave and come back only by whole blocks of managed memory.
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
std::optional<placed_plan> place_in_scope(const problem& p, const memory_plan& decided, placement_scope how) {
  memory_plan managed = in_managed_memory(p.network, decided, how);
  if (std::ranges::none_of(managed.residences, is_managed)) return std::nullopt;  // `best` makes such plans
  if (!moves_whole_blocks(p.network, managed)) return std::nullopt;
  problem kept = p;
  kept.evicted_by = pressure::plan;
  kept.budget = std::numeric_limits<byte_count>::max();
  const verified_plan plan = verify_plan(p.network, std::move(managed));
  const placement at(kept, plan.plan(), packers::searched);
  placed_plan placed{plan.plan(), lower(kept, plan, at).peak_device_bytes, 0};
  if (placed.need <= p.budget) {
    const execution_plan steps = lower(p, plan, at);
    placed.time = time_with_copy_price(p, steps, 2) + price_of_launches(steps);
  }
  return placed;
}

// Tries each scope. The fastest that fits the budget, or, where none does, the one that takes least memory.
std::optional<placed_plan> place_in_fastest_scope(problem p, const memory_plan& decided, byte_count budget) {
  p.budget = budget;
  std::optional<placed_plan> best;
  for (const placement_scope how : {placement_scope::everything, placement_scope::lasting,
                                    placement_scope::given, placement_scope::large}) {
    if (how == placement_scope::large && best && best->need <= p.budget) break;
    std::optional<placed_plan> now = place_in_scope(p, decided, how);
    if (!now) continue;
    const auto rank = [&](const placed_plan& t) { return std::tuple(std::max(t.need, p.budget), t.time); };
    if (!best || rank(*now) < rank(*best)) best = std::move(now);
  }
  return best;
}

// Another strategy's plan for managed memory.
std::optional<placed_plan> place_as_decided(problem p, memory_plan plan, byte_count budget) {
  p.budget = budget;
  if (std::ranges::none_of(plan.residences, is_managed)) return std::nullopt;
  const execution_plan steps = lower(p, plan, packers::searched);
  placed_plan placed{std::move(plan), steps.peak_device_bytes, 0};
  if (p.evicted_by == pressure::driver) placed.need = steps.device_arena_bytes;
  placed.time = time_with_copy_price(p, steps, 2) + price_of_launches(steps);
  return placed;
}

}  // namespace

memory_plan plan_best_managed(const problem& of) {
  return plan_in_order_of_use(of, [](const problem& p) {
    const placer place{
        [&](const memory_plan& plan, byte_count budget) { return place_in_fastest_scope(p, plan, budget); },
        [&](memory_plan plan, byte_count budget) { return place_as_decided(p, std::move(plan), budget); }};
    if (footprint_of(p.network, p.operator_costs).total <= p.budget) {
      std::optional<placed_plan> resident = place.decided(plan_resident(p), p.budget);
      if (resident && resident->need <= p.budget) return std::move(resident->plan);
    }
    return plan_best(p, place, {"best_managed", true, hint_strategies()});
  });
}

}  // namespace um
