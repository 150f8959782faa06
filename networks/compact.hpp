// What passes over a graph leave behind.
#pragma once

#include "core/graph.hpp"

namespace um {

// The same graph without the tensors that no operator names; the others keep their order.
graph compacted(const graph& g);

}  // namespace um
