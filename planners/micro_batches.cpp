#include <algorithm>
#include <string>

#include "core/layout.hpp"
#include "planners/planners.hpp"
#include "planners/within.hpp"
#include "schedule/orders.hpp"

namespace um {
namespace {

memory_plan plan_with_parts(const graph& g, std::uint32_t k) {
  return make_plan(g, make_order(g, {k, {}, {}}), residence::device);
}

bool fits_in_budget(const problem& p, const memory_plan& plan) {
  if (std::ranges::max(live_bytes(with_estimates(p), plan)) > p.budget) return false;
  return packed_bytes(p, plan) <= p.budget;
}

// Whether any operator can be cut into this number of parts.
bool can_cut_any(const graph& g, std::uint32_t parts) {
  return std::ranges::any_of(g.ops, [&](const op& o) { return can_split_batch(g, o, parts); });
}

}  // namespace

// Finds the fewest parts that fit: tries small numbers one by one, larger ones by doubling and then by
// bisection.
memory_plan plan_micro_batches(const problem& p) {
  const auto k = static_cast<std::uint32_t>(p.knobs.at("k"));
  if (k != 0) return plan_with_parts(p.network, k);
  constexpr std::uint32_t one_by_one = 16;
  std::uint32_t too_few = 0, parts = 1;
  for (;;) {
    memory_plan plan = plan_with_parts(p.network, parts);
    // Beyond `one_by_one`, plans in fewer parts than these are still to be tried.
    if (is_clearly_slower(p, parts > one_by_one ? plan_with_parts(p.network, too_few + 1) : plan))
      throw too_slow("micro_batches");
    if (fits_in_budget(p, plan)) {
      if (parts <= one_by_one) return plan;
      break;
    }
    too_few = parts;
    parts = parts < one_by_one ? parts + 1 : 2 * parts;
    while (parts > too_few + 1 && !can_cut_any(p.network, parts)) parts -= (parts - too_few) / 2;
    if (!can_cut_any(p.network, parts)) {
      throw infeasible("micro_batches takes " +
                       to_text(std::ranges::max(live_bytes(with_estimates(p), plan))) + " even in " +
                       std::to_string(too_few) + " parts of the batch, the budget is " + to_text(p.budget) +
                       " (weights and gradients stay resident)");
    }
  }
  while (parts - too_few > 1) {
    const std::uint32_t middle = too_few + (parts - too_few) / 2;
    (fits_in_budget(p, plan_with_parts(p.network, middle)) ? parts : too_few) = middle;
  }
  return plan_with_parts(p.network, parts);
}

}  // namespace um
