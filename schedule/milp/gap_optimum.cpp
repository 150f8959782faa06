#include "schedule/milp/gap_optimum.hpp"

#include <algorithm>
#include <cmath>

#include "schedule/milp/gap_model.hpp"

namespace um {
namespace milp {
namespace {

decision decision_of(const gap_model& m, const gap_columns& a, const std::vector<double>& x) {
  const gap& e = m.gaps[a.gap];
  const auto is = [&](column c) { return x[c] > 0.5; };
  const auto begins = [&](std::size_t i) { return std::max(e.last + 1, m.slots.begin[a.first + i]); };
  const auto first = [&](const std::vector<column>& set) {
    return static_cast<std::size_t>(std::ranges::find_if(set, is) - set.begin());
  };
  decision d;
  for (std::size_t i = 0; i < a.recomputed.size(); ++i) {
    if (a.recomputed[i] && is(*a.recomputed[i]))
      d = {choice::again, e.last, i < a.taken.size() ? begins(i) : e.next};
  }
  if (d.what == choice::again) return d;
  const std::size_t leaves = first(a.given), returns = first(a.taken);
  const bool stays = a.given.empty() ? !is(*m.staged[m.tensor_of(e)]) : leaves == a.given.size();
  if (stays) return d;
  return {choice::swap, a.given.empty() ? e.last : begins(leaves) - 1,
          returns < a.taken.size() ? begins(returns) : e.next};
}

std::vector<decision> decisions_of(const gap_model& m, const std::vector<double>& x) {
  std::vector<decision> all(m.gaps.size());
  for (const gap_columns& a : m.away) all[a.gap] = decision_of(m, a, x);
  return all;
}

// The values of columns that decisions determine.
terms start_from(const gap_model& m, std::span<const decision> decisions) {
  terms start;
  std::vector<bool> is_staged(m.g.tensors.size(), false);
  for (const gap_columns& a : m.away) {
    const gap& e = m.gaps[a.gap];
    const decision& d = decisions[a.gap];
    if (d.what == choice::swap) is_staged[m.tensor_of(e)] = true;
    const position leaves = d.what == choice::swap ? d.leave : e.last;
    for (std::size_t i = 0; i < a.given.size(); ++i) {
      const position begins = std::max(e.last + 1, m.slots.begin[a.first + i]);
      const bool gone = d.what != choice::keep && begins > leaves;
      if (e.last >= 0) start.emplace_back(a.given[i], gone ? 1 : 0);
      if (!a.taken.empty()) start.emplace_back(a.taken[i], gone && begins >= d.back ? 1 : 0);
    }
  }
  for (tensor_id t = 0; t < m.staged.size(); ++t) {
    if (m.staged[t]) start.emplace_back(*m.staged[t], is_staged[t] ? 1 : 0);
  }
  return start;
}

}  // namespace
}  // namespace milp

gap_solution minimum_of(const problem& p, const use_table& uses, const std::vector<gap>& gaps,
                        const forecaster& costs, std::span<const byte_count> live, const gap_program& what,
                        const mixed_effort& effort, std::span<const decision> start) {
  milp::gap_model m(p, uses, gaps, costs, live, what);
  milp::add_absences(m);
  milp::add_recomputation(m);
  milp::add_memory_limits(m);
  milp::add_lane_limits(m);
  const milp::terms first = start.empty() ? milp::terms{} : milp::start_from(m, start);
  const mixed_solution solved = minimum_of(m.program, effort, first);
  gap_solution s{solved.found,          solved.infeasible,         0, 0, {}, solved.nodes,
                 m.program.cost.size(), m.program.row_least.size()};
  if (std::isfinite(solved.bound)) s.bound = std::llround(std::max(solved.bound, 0.0) * milp::ns_a_unit);
  if (!solved.found) return s;
  s.time = std::llround(solved.value * milp::ns_a_unit);
  s.decisions = milp::decisions_of(m, solved.x);
  return s;
}

}  // namespace um
