// What a strategy's rules say without looking at the budget: residences, advice, and what goes before and
// behind each compute.
#pragma once

#include <string>
#include <vector>

#include "core/planner.hpp"
#include "hints/rules.hpp"
#include "schedule/uses.hpp"

namespace um {

// Which tensors of a network rules are for.
class tensor_chooser {
 public:
  explicit tensor_chooser(const graph& g);
  bool is_for(const tensor_choice& which, tensor_id t) const;

 private:
  bool is_touched(const std::vector<std::string>& kinds, const std::vector<op_id>& by) const;

  const graph& g_;
  std::vector<bool> written_, used_again_;
  std::vector<std::vector<op_id>> readers_, writers_;  // of each tensor
};

// Evictions under pressure, fetches as room allows, cuts and searches are left to the caller. Tensors that
// leave by twin are twinned.
memory_plan draft_of(const hint_strategy& s, const problem& p, const std::vector<compute>& order);

}  // namespace um
