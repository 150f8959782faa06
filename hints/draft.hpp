// The draft plan of a strategy's rules, before the budget is considered: residences, advice, and the actions
// before and after each compute.
#pragma once

#include <string>
#include <vector>

#include "core/planner.hpp"
#include "hints/rules.hpp"
#include "schedule/uses.hpp"

namespace um {

// Decides which tensors of a network a rule applies to.
class tensor_matcher {
 public:
  explicit tensor_matcher(const graph& g);
  bool matches(const tensor_choice& which, tensor_id t) const;

 private:
  bool is_touched_by(const std::vector<std::string>& kinds, const std::vector<op_id>& by) const;

  const graph& graph_;
  std::vector<bool> is_written_, is_used_again_;
  std::vector<std::vector<op_id>> readers_, writers_;  // per tensor
};

// The caller adds evictions under pressure, fetches on demand, cuts and searches. Tensors that are evicted by
// twin get residence `twinned`.
memory_plan make_draft(const hint_strategy& s, const problem& p, const std::vector<compute>& order);

}  // namespace um
