// Checkpoints: cuts of the forward graph that few bytes cross.
#pragma once

#include <vector>

#include "planners/torch_orders.hpp"

namespace um {

// Sets of tensors to save so that the rest is recomputed part by part (Chen et al., Training deep nets with
// sublinear memory cost, 2016), for several numbers of parts. Tensors produced after the last cut used are
// saved as well.
std::vector<std::vector<torch_id>> torch_checkpoints(const torch_dataflow& dataflow);

// Of these positions, given in rising order, the local minima of the heights.
std::vector<std::size_t> find_valleys(const std::vector<std::int64_t>& heights,
                                      const std::vector<std::size_t>& positions);

}  // namespace um
