// Where little crosses from one part of the forward graph to the next.
#pragma once

#include <vector>

#include "planners/torch_orders.hpp"

namespace um {

// Sets of tensors to save so that the rest is computed again part by part (Chen et al., Training deep nets
// with sublinear memory cost, 2016), for several numbers of parts. What is made behind the last border that
// counts is saved as well.
std::vector<std::vector<torch_id>> torch_checkpoints(const torch_wiring& wiring);

// Of these positions, in rising order, those that are lower than others both before and behind them.
std::vector<std::size_t> torch_valleys(const std::vector<std::int64_t>& heights,
                                       const std::vector<std::size_t>& positions);

}  // namespace um
