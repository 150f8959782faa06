// Verifies a plan without running it: executes the action list on value tokens. An iteration must end in the
// state in which the next one starts, so one iteration verifies all.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/memory_plan.hpp"

namespace um {

// The reason why the plan is wrong, naming the action, the operator and the tensor; nothing if it is right. A
// right plan computes every operator. Every read finds the value that it would have in graph order (not
// absent, stale or discarded). Sums over parts are complete. Parameters, gradients and outputs have their
// values at the end.
std::optional<std::string> defect_of(const graph& g, const memory_plan& plan);

// A plan that has been verified for a graph; only verify_plan() makes one. The graph must outlive it
// unchanged.
class verified_plan {
 public:
  const memory_plan& plan() const { return plan_; }
  bool was_verified_for(const graph& g) const { return &g == graph_; }

 private:
  friend verified_plan verify_plan(const graph& g, memory_plan plan);
  verified_plan(const graph& g, memory_plan plan) : graph_(&g), plan_(std::move(plan)) {}

  const graph* graph_;
  memory_plan plan_;
};

// Verifies a plan. Throws std::invalid_argument with the text of defect_of().
verified_plan verify_plan(const graph& g, memory_plan plan);

}  // namespace um
