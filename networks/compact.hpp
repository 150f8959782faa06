// Removes unused tensors from a graph.
#pragma once

#include "core/graph.hpp"

namespace um {

// The graph without tensors that no operator uses; the others keep their order.
graph without_unused_tensors(const graph& g);

}  // namespace um
