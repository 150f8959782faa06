// Operator fusion on a forward graph. Backward operators follow from the fused forward
// ones (networks/builder.hpp).
#pragma once

#include "core/graph.hpp"

namespace um {

// The same function with fewer passes over the data:
//   convolution, relu             -> convolution with relu
//   convolution, relu, max_pool   -> convolution without its bias, max_pool with bias and relu
//   linear, relu                  -> linear with relu
//   batch_norm [, add] [, relu]   -> batch_norm with residual and relu (normalize likewise)
// Only where nothing else reads the tensor between. `g` holds forward operators alone. Names: a
// joined operator keeps the first one's name, its output the last one's.
graph fuse(const graph& g);

}  // namespace um
