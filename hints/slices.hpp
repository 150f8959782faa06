// The order of computes, cut into slices of the batch, for strategies with a cut rule.
#pragma once

#include <vector>

#include "core/planner.hpp"
#include "schedule/orders.hpp"

namespace um {

// The order of computes in which operators that touch more than `max_bytes` of activations run over the
// batch in slices. There are as many as keep each slice within `max_bytes`, at most one per image.
// Neighbouring operators of that kind share one loop over slices, so that tensors between them exist for one
// slice only. Operators that cannot be cut stay whole. Slices with accumulation go in ascending order, others
// in descending order: the backward pass needs last what the forward pass wrote first and could already
// evict.
std::vector<compute> make_sliced_order(const graph& g, byte_count max_bytes);

}  // namespace um
