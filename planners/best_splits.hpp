// The ways to split the batch that `best` tries.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/planner.hpp"
#include "schedule/forecast.hpp"
#include "schedule/orders.hpp"

namespace um {

struct batch_split {
  loop_nest by;                                // how operators go over the batch in parts
  bool may_swap = true;                        // tensors may be swapped
  memory_waits waits = memory_waits::for_all;  // what forecasts assume
  bool of_budget = false;                      // its regions depend on the budget
};

// Whole operators first; without `same_bits` also
// - micro-batches, in growing number. Where an operator in the middle needs the whole batch, the others go in
//   parts between such operators.
// - regions: operators whose operands take a large share of the footprint, or of the budget, go in
// parts together, all others whole. `why` becomes the reason, if there is one, why micro-batches cannot go
// through the whole network. `and_without`: each also without moving anything.
struct split_request {
  bool same_bits = false;
  bool and_without = false;    // each also without moving anything
  bool both_waits = false;     // each also with the shorter waits
  bool of_any_budget = false;  // the same for all budgets
};
std::vector<batch_split> splits_of(const problem& p, const split_request& what, std::string& why);

}  // namespace um
