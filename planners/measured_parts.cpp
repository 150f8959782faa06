#include "planners/measured_parts.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

namespace um {
namespace {

constexpr std::uint64_t whole_work = 1ULL << 40U;

std::uint64_t share_of_work(const graph& g, const compute& c) {
  return share_of(whole_work, g, g.ops[c.op], c.part);
}

// Whole operators are measured already. Their cheap recomputations are few, and no engine is searched for.
bool is_quickly_measured(const compute& c) {
  return is_whole(c.part) && c.workspace == as_profiled;
}

}  // namespace

const measured_parts::known_cost* measured_parts::find(const compute& c) const {
  const auto& of_one = measured_[c.op];
  const auto found = std::ranges::find(of_one, representative_part(p_.network, c), &known_cost::first);
  return found == of_one.end() ? nullptr : &*found;
}

op_cost measured_parts::cost_of_part(const compute& c) const {
  if (is_quickly_measured(c)) return cost_of(p_, c);
  if (const known_cost* known = find(c)) return known->second;
  const std::uint64_t share = share_of_work(p_.network, c);
  const known_cost* larger = nullptr;
  std::uint64_t larger_share = whole_work + 1;
  for (const known_cost& x : measured_[c.op]) {
    if (x.first.workspace != c.workspace || x.first.cheap_recompute != c.cheap_recompute) continue;
    const std::uint64_t its = share_of_work(p_.network, x.first);
    // A part takes longer than the whole if no engine computes it.
    if (its < share || its >= larger_share || x.second.time > p_.operator_costs[c.op].time) continue;
    larger = &x;
    larger_share = its;
  }
  if (larger == nullptr) {
    op_cost cost = cost_of(p_.network, p_.operator_costs, p_.target, {}, c);
    const byte_count whole = p_.operator_costs[c.op].workspace_bytes;
    cost.workspace_bytes =
        std::min(cost.workspace_bytes, share_of(whole, p_.network, p_.network.ops[c.op], c.part));
    return cost;
  }
  op_cost cost = larger->second;
  const nanoseconds fixed = std::min(cost.time, p_.target.launch_ns);
  const double of_larger = static_cast<double>(share) / static_cast<double>(larger_share);
  cost.time = fixed + static_cast<nanoseconds>(static_cast<double>(cost.time - fixed) * of_larger);
  cost.workspace_bytes = static_cast<byte_count>(static_cast<double>(cost.workspace_bytes) * of_larger);
  return cost;
}

bool measured_parts::measure(const memory_plan& plan) {
  bool is_new = false;
  for (const action& a : plan.actions) {
    const auto* c = std::get_if<compute>(&a);
    if (c == nullptr || is_quickly_measured(*c) || find(*c) != nullptr) continue;
    measured_[c->op].emplace_back(representative_part(p_.network, *c), cost_of(p_, *c));
    is_new = true;
  }
  return is_new;
}

memory_plan plan_by_few_measurements(const problem& p, const planner& make, const plan_placer& place) {
  if (!p.measures_slices) return make(p);
  constexpr nanoseconds no_time = std::numeric_limits<nanoseconds>::max();
  constexpr int max_plans = 5;
  measured_parts parts(p);
  problem estimated = p;
  estimated.measures_slices = false;
  estimated.cost_of_slice = [&](const compute& c) { return parts.cost_of_part(c); };
  const auto time_of = [&](const memory_plan& plan) {
    try {
      const std::optional<placed_plan> placed = place(estimated, plan);
      return placed && placed->device_bytes <= p.budget ? placed->time : no_time;
    } catch (const infeasible&) {
      return no_time;
    }
  };
  memory_plan best;
  nanoseconds best_time = no_time, least_estimate = no_time;
  try {
    for (int i = 0; i < max_plans; ++i) {
      memory_plan plan = make(estimated);
      const nanoseconds estimate = time_of(plan);
      least_estimate = std::min(least_estimate, estimate);
      const bool is_new = parts.measure(plan);
      const nanoseconds time = is_new ? time_of(plan) : estimate;
      if (time < best_time) {
        best_time = time;
        best = std::move(plan);
      }
      if (!is_new || best_time - best_time / 1000 <= estimate) break;
    }
  } catch (const infeasible&) {  // what is measured is too large, or all estimates are
  }
  if (best_time == no_time) return make(p);
  constexpr nanoseconds tolerance_percent = 10;
  if (best_time <= least_estimate + least_estimate / 100 * tolerance_percent) return best;
  // Estimates mislead, for example where no engine computes some parts: these are measured as very slow.
  try {
    memory_plan plan = make(p);
    parts.measure(plan);
    if (time_of(plan) < best_time) return plan;
  } catch (const infeasible&) {  // the plan with all parts measured is too large
  }
  return best;
}

}  // namespace um
