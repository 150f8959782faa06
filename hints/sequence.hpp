// In which slices a strategy of rules computes its network.
#pragma once

#include <vector>

#include "core/planner.hpp"
#include "schedule/orders.hpp"

namespace um {

// Operators that touch more than `most` bytes of activations go over the batch in slices, as many as keep
// each within that or as there are images; neighbours of that kind together, one slice through all of them
// after the other, so that what lies between them is there for one slice only. Operators that cannot be cut
// stay whole. Slices that add up go in ascending order, others in descending: so what the forward pass makes
// first, and can send away first, the backward pass needs last.
std::vector<compute> in_slices(const graph& g, byte_count most);

}  // namespace um
