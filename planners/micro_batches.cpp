#include <algorithm>
#include <string>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "planners/planners.hpp"
#include "schedule/orders.hpp"

namespace um {
namespace {

memory_plan with(const graph& g, std::uint32_t k) {
  return plan_of(g, order_of(g, {k, {}, {}}), residence::device);
}

bool fits(const problem& p, const memory_plan& plan) {
  if (std::ranges::max(live_bytes(p, plan)) > p.budget) return false;
  problem unlimited = p;
  unlimited.budget = std::numeric_limits<byte_count>::max();
  return lower(unlimited, plan).device_arena_bytes <= p.budget;
}

}  // namespace

memory_plan plan_micro_batches(const problem& p) {
  const auto k = static_cast<std::uint32_t>(p.knobs.at("k"));
  if (k != 0) return with(p.network, k);
  for (std::uint32_t parts = 1;; ++parts) {
    memory_plan plan = with(p.network, parts);
    if (fits(p, plan)) return plan;
    const bool more = std::ranges::any_of(
        p.network.ops, [&](const op& o) { return goes_over_batch(p.network, o, parts + 1); });
    if (!more) {
      throw infeasible("micro_batches takes " + to_text(std::ranges::max(live_bytes(p, plan))) + " even in " +
                       std::to_string(parts) + " parts of the batch, the budget is " + to_text(p.budget) +
                       " (weights and gradients stay resident)");
    }
  }
}

}  // namespace um
