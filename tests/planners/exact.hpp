// The best plan of whole operators beside the optimum of the gap program.
#pragma once

#include <algorithm>
#include <limits>

#include "core/layout.hpp"
#include "core/lower.hpp"
#include "planners/planners.hpp"
#include "schedule/bounds/bounds.hpp"
#include "schedule/fit_transfers.hpp"
#include "schedule/milp/gap_optimum.hpp"
#include "schedule/orders.hpp"
#include "simulator/roofline.hpp"
#include "simulator/simulate.hpp"

namespace um::testing {

struct exact_pair {
  nanoseconds computing = 0, bound = 0;        // the operators; whole_bound of plans that do both
  nanoseconds optimum = no_bound, proved = 0;  // of the program; what it proves that none beats
  nanoseconds simulated = no_bound;            // of the decisions that the program found
  bool infeasible = false;                     // it proves that there is none
  nanoseconds best = no_bound;                 // simulated; no_bound: it finds no plan
  std::int64_t nodes = 0;
};

// On a link that is as fast both ways at once, as the program has it.
inline exact_pair compare_with_optimum(const graph& g, machine on, double ratio, std::int64_t nodes) {
  on.link_both_bytes_per_s = on.link_to_device_bytes_per_s + on.link_to_host_bytes_per_s;
  const profile costs = estimate(g, on);
  const strategy& by = *find_strategy(planners(), "best");
  const auto budget = static_cast<byte_count>(static_cast<double>(footprint_of(g, costs).total) / ratio);
  const auto knobs = complete_knobs(by, {{"bits", 1}, {"copies", 0}, {"copy_us", 0}});
  const problem p{g, costs, on, budget, pressure::none, knobs, {}};
  exact_pair found;
  const time_bounds bounds = compute_time_bounds(p);
  found.computing = bounds.compute;
  found.bound = bounds.whole->both;
  const use_table uses = make_use_table(g, make_order(g, {1, {}, large_gradients(g)}));
  const std::vector<gap> gaps = find_gaps(g, uses);
  forecaster costs_of(p, uses);
  const std::vector<decision> kept(gaps.size());
  const std::vector<event> events = build_events(g, uses, gaps, kept);
  costs_of.forecast_memory(events, find_staged_tensors(uses, gaps, kept));
  gap_program_options what;
  what.memory_bytes = budget;
  what.max_slots = uses.order.size();
  what.min_part_bytes = std::max<byte_count>(budget / 1000, 1);
  const std::vector<byte_count> live = live_at_positions(uses, events, costs_of.live_bytes());
  // Without copies it is easy, and a start for the rest.
  what.swaps = false;
  const gap_solution start = minimize(p, uses, gaps, costs_of, live, what, {0.002, nodes});
  what.swaps = true;
  const gap_solution s = minimize(p, uses, gaps, costs_of, live, what, {0.002, nodes}, start.decisions);
  found.infeasible = s.is_infeasible;
  found.proved = s.bound;
  found.nodes = s.node_count;
  problem unpacked = p;
  unpacked.budget = std::numeric_limits<byte_count>::max();
  for (const gap_solution* x : {&start, &s}) {
    if (!x->is_feasible) continue;
    found.optimum = std::min(found.optimum, x->time);
    const memory_plan decided = make_plan(g, uses, gaps, x->decisions);
    found.simulated =
        std::min(found.simulated, simulate(unpacked, lower(unpacked, decided), 2).back().duration);
  }
  try {
    found.best = simulate(p, lower(p, by.plan(p)), 2).back().duration;
  } catch (const infeasible&) {
  }
  return found;
}

}  // namespace um::testing
