// The best plan of whole operators beside the optimum of the gap program.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

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
  nanoseconds computing = 0, bound = 0;        // the operators; whole_operator_bound of plans that do both
  nanoseconds optimum = no_bound, proved = 0;  // of the program; what it proves that none beats
  // Simulated, of a plan by the program's decisions that packs into the budget. The program knows neither the
  // order of copies nor addresses, so this may be more than `optimum`.
  nanoseconds simulated = no_bound;
  bool infeasible = false;      // it proves that there is none
  nanoseconds best = no_bound;  // simulated; no_bound: it finds no plan
  std::int64_t nodes = 0;
};

// The gap program of a problem, for whole operators in the order that `best` tries.
class gap_optimizer {
 public:
  explicit gap_optimizer(const problem& p)
      : p_(p),
        uses_(make_use_table(p.network,
                             make_order(p.network, {1, {}, ops_with_large_parameter_gradients(p.network)}))),
        gaps_(find_gaps(p.network, uses_)),
        forecaster_(p, uses_) {
    const std::vector<decision> kept(gaps_.size());
    const std::vector<event> events = build_events(p.network, uses_, gaps_, kept);
    forecaster_.forecast_memory(events, find_staged_tensors(uses_, gaps_, kept));
    live_ = live_at_positions(uses_, events, forecaster_.live_bytes());
  }

  // Of plans without copies, then of all, which starts from the first: it is easy.
  std::array<gap_solution, 2> solve(byte_count memory, std::int64_t nodes) const {
    gap_program_options what;
    what.memory_bytes = memory;
    what.max_slots = uses_.order.size();
    what.min_part_bytes = std::max<byte_count>(p_.budget / 1000, 1);
    what.swaps = false;
    const solver_limits limits{0.002, nodes};
    gap_solution unmoved = minimize(p_, uses_, gaps_, forecaster_, live_, what, limits);
    what.swaps = true;
    gap_solution all = minimize(p_, uses_, gaps_, forecaster_, live_, what, limits, unmoved.decisions);
    return {std::move(unmoved), std::move(all)};
  }

  execution_plan lowered(const std::vector<decision>& decisions) const {
    problem unlimited = p_;
    unlimited.budget = std::numeric_limits<byte_count>::max();
    return lower(unlimited, make_plan(p_.network, uses_, gaps_, decisions), packers::searched);
  }

 private:
  const problem& p_;
  use_table uses_;
  std::vector<gap> gaps_;
  forecaster forecaster_;
  std::vector<byte_count> live_;
};

// On a link that is as fast both ways at once, as the program has it.
inline exact_pair compare_with_optimum(const graph& g, machine on, double ratio, std::int64_t nodes) {
  on.link_both_bytes_per_s = on.link_to_device_bytes_per_s + on.link_to_host_bytes_per_s;
  const profile costs = estimate(g, on);
  const strategy& by = *find_strategy(planners(), "best");
  const auto budget = static_cast<byte_count>(static_cast<double>(footprint_of(g, costs).total) / ratio);
  const auto knobs = complete_knobs(by, {{"bits", 1}, {"copies", 0}, {"copy_us", 0}});
  const problem p{g, costs, on, budget, evictor::none, knobs, {}};
  exact_pair found;
  const time_bounds bounds = find_time_bounds(p);
  found.computing = bounds.compute;
  found.bound = bounds.whole_operators->both;
  const gap_optimizer program(p);
  // Solved again for less memory until its decisions pack into the budget.
  byte_count room = budget;
  constexpr int most_solved = 5;
  constexpr byte_count no_plan = std::numeric_limits<byte_count>::max();
  for (int tries = 0; tries < most_solved && found.simulated == no_bound; ++tries) {
    byte_count beyond = no_plan;  // the least that a plan needs beyond the budget
    const auto solutions = program.solve(room, nodes);
    if (tries == 0) {
      found.infeasible = solutions[1].is_infeasible;
      found.proved = solutions[1].bound;
      found.nodes = solutions[1].node_count;
    }
    for (const gap_solution& x : solutions) {
      if (!x.is_feasible) continue;
      if (tries == 0) found.optimum = std::min(found.optimum, x.time);
      const execution_plan steps = program.lowered(x.decisions);
      if (steps.device_arena_bytes <= budget) {
        found.simulated = std::min(found.simulated, simulate(p, steps, 2).back().duration);
      } else {
        beyond = std::min(beyond, steps.device_arena_bytes - budget);
      }
    }
    if (beyond == no_plan) break;
    room -= std::min(room, beyond);
  }
  try {
    found.best = simulate(p, lower(p, by.plan(p)), 2).back().duration;
  } catch (const infeasible&) {
  }
  return found;
}

}  // namespace um::testing
