// Computing again instead of keeping (Chen et al. 2016, "Training deep nets with sublinear memory
// cost"), for tensors that are cheap to have again.
#pragma once

#include "core/graph.hpp"

namespace um {

// The same graph in which some activations that backward operators read are computed again just
// before, under the name `NAME.again`, so that the first copy need not survive the forward pass.
// Only outputs of normalisations, pointwise operators, casts and convolutions of at most 32 products
// an element; only where that lowers the peak of live bytes of the graph in its order (workspaces
// not counted), and as long as computing again reads and writes at most `most_traffic` bytes for each byte
// that the peak is lower, in all. `g` is a finished training graph.
graph recompute_cheap(const graph& g, double most_traffic = 2.2);

// Largest sum of bytes of tensors alive at once when the operators run in order: the lower bound of
// the footprint without workspaces.
byte_count peak_live_bytes(const graph& g);

}  // namespace um
