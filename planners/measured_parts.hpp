// Plans with few measurements of parts of operators.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "planners/best_place.hpp"

namespace um {

// Costs of parts of operators: measured for the parts of some plans, estimated for all others. Keeps a
// reference to the problem.
class measured_parts {
 public:
  explicit measured_parts(const problem& p) : p_(p), measured_(p.network.ops.size()) {}

  // The estimate is the share, of time and workspace, of the smallest larger part that was measured, or of
  // the whole operator. Its time is hardly ever too high: larger parts use a GPU better.
  op_cost cost_of_part(const compute& c) const;
  // Measures the parts of the plan. Returns whether any was not measured yet.
  bool measure(const memory_plan& plan);

 private:
  using known_cost = std::pair<compute, op_cost>;
  const known_cost* find(const compute& c) const;

  const problem& p_;
  std::vector<std::vector<known_cost>> measured_;  // per operator
};

// Places and times a plan within the problem's budget. May return nothing or throw infeasible.
using plan_placer = std::function<std::optional<placed_plan>(const problem&, memory_plan)>;

// Where problem::cost_of_slice measures, makes the plan by estimates and measures its parts. Then plans again
// with these, unless the plan is as fast as estimated. Returns the fastest plan by measured costs. Also
// plans with all parts that the search asks for measured if that plan is 10 % slower than the least estimate.
memory_plan plan_by_few_measurements(const problem& p, const planner& make, const plan_placer& place);

}  // namespace um
