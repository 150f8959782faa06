// The splits of the batch that `best` tries.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/planner.hpp"
#include "schedule/forecast.hpp"
#include "schedule/orders.hpp"

namespace um {

struct batch_split {
  loop_nest loops;                             // which operators loop over how many parts of the batch
  bool may_swap = true;                        // tensors may be swapped
  memory_waits waits = memory_waits::for_all;  // the waits that forecasts assume
  bool depends_on_budget = false;              // its regions depend on the budget
  // Index of the split with the same regions in twice as many parts, if this one was derived from it.
  std::optional<std::size_t> finer_split = std::nullopt;
};

// Returns the splits to try, whole operators first. Without `same_bits` there are also micro-batches, in
// growing number, and regions: runs of operators with large operands that are computed part by part while all
// others run whole, with the same operators deferred as in whole orders. If an operator in the middle needs
// the whole batch, the others run in parts between such operators. `why` is set to the reason if
// micro-batches cannot span the whole network.
struct split_request {
  bool same_bits = false;
  bool also_without_swaps = false;  // each split also without swaps
  bool with_both_waits = false;     // each split also with memory_waits::until_enough
  bool budget_independent = false;  // only splits that do not depend on the budget
  // Appends each split with regions again in half as many parts. Not with also_without_swaps or
  // with_both_waits.
  bool also_coarser = false;
};
std::vector<batch_split> splits_of(const problem& p, const split_request& what, std::string& why);

}  // namespace um
