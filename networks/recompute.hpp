// Recomputation of tensors that are cheap to compute (Chen et al. 2016, "Training deep nets with sublinear
// memory cost").
#pragma once

#include "core/graph.hpp"

namespace um {

// The graph with some activations computed again just before backward operators read them, under the name
// `NAME.again`, so that their first copy can be released in the forward pass.
//
// Only outputs of normalisations, pointwise operators, casts and convolutions of at most 32 products per
// element are recomputed, and only while that lowers the peak of live bytes in graph order (workspaces not
// counted) and reads and writes, in total, at most `most_traffic` bytes per byte saved. `g` is a finished
// training graph.
graph recompute_cheap(const graph& g, double most_traffic = 2.2);

// Maximum of the bytes alive when the operators run in order: a lower bound of the footprint without
// workspaces.
byte_count peak_live_bytes(const graph& g);

}  // namespace um
