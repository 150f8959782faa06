#include "schedule/milp/gap_optimum.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/milp/gap_model.hpp"

namespace um {
namespace milp {
namespace {

decision decide_gap(const gap_model& m, const gap_columns& a, const std::vector<double>& x) {
  const gap& e = m.gaps[a.gap];
  const auto is = [&](column c) { return x[c] > 0.5; };
  const auto begins = [&](std::size_t i) {
    return std::max(e.last_use + 1, m.slots.begin[a.first_slot + i]);
  };
  const auto first = [&](const std::vector<column>& set) {
    return static_cast<std::size_t>(std::ranges::find_if(set, is) - set.begin());
  };
  decision d;
  for (std::size_t i = 0; i < a.recompute_in_slot.size(); ++i) {
    if (a.recompute_in_slot[i] && is(*a.recompute_in_slot[i]))
      d = {gap_choice::recompute, e.last_use, i < a.reacquired.size() ? begins(i) : e.next_use};
  }
  if (d.choice == gap_choice::recompute) return d;
  const std::size_t leaves = first(a.released), returns = first(a.reacquired);
  const bool stays =
      a.released.empty() ? !is(*m.staged_columns[m.tensor_of(e)]) : leaves == a.released.size();
  if (stays) return d;
  return {gap_choice::swap, a.released.empty() ? e.last_use : begins(leaves) - 1,
          returns < a.reacquired.size() ? begins(returns) : e.next_use};
}

std::vector<decision> decide_all_gaps(const gap_model& m, const std::vector<double>& x) {
  std::vector<decision> all(m.gaps.size());
  for (const gap_columns& a : m.absences) all[a.gap] = decide_gap(m, a, x);
  return all;
}

// Start values of the columns that these decisions determine.
terms make_start_values(const gap_model& m, std::span<const decision> decisions) {
  terms start;
  std::vector<bool> is_staged(m.network.tensors.size(), false);
  for (const gap_columns& a : m.absences) {
    const gap& e = m.gaps[a.gap];
    const decision& d = decisions[a.gap];
    if (d.choice == gap_choice::swap) is_staged[m.tensor_of(e)] = true;
    const position leaves = d.choice == gap_choice::swap ? d.leave_after : e.last_use;
    for (std::size_t i = 0; i < a.released.size(); ++i) {
      const position begins = std::max(e.last_use + 1, m.slots.begin[a.first_slot + i]);
      const bool gone = d.choice != gap_choice::keep && begins > leaves;
      if (e.last_use >= 0) start.emplace_back(a.released[i], gone ? 1 : 0);
      if (!a.reacquired.empty())
        start.emplace_back(a.reacquired[i], gone && begins >= d.return_before ? 1 : 0);
    }
  }
  for (tensor_id t = 0; t < m.staged_columns.size(); ++t) {
    if (m.staged_columns[t]) start.emplace_back(*m.staged_columns[t], is_staged[t] ? 1 : 0);
  }
  return start;
}

}  // namespace
}  // namespace milp

gap_solution minimize(const problem& p, const use_table& uses, const std::vector<gap>& gaps,
                      const forecaster& costs, std::span<const byte_count> live_at_positions,
                      const gap_program_options& options, const solver_limits& effort,
                      std::span<const decision> start) {
  milp::gap_model m(p, uses, gaps, costs, live_at_positions, options);
  milp::add_absences(m);
  milp::add_recomputation(m);
  milp::add_memory_limits(m);
  milp::add_lane_limits(m);
  const milp::terms first = start.empty() ? milp::terms{} : milp::make_start_values(m, start);
  const mixed_solution solved = minimize(m.program, effort, first);
  gap_solution s{solved.is_feasible,     solved.is_infeasible,    0, 0, {}, solved.node_count,
                 m.program.costs.size(), m.program.row_min.size()};
  if (std::isfinite(solved.lower_bound))
    s.bound = std::llround(std::max(solved.lower_bound, 0.0) * milp::ns_a_unit);
  if (!solved.is_feasible) return s;
  s.time = std::llround(solved.value * milp::ns_a_unit);
  s.decisions = milp::decide_all_gaps(m, solved.x);
  return s;
}

}  // namespace um
