// Operator fusion on a forward graph. Backward operators follow from the fused forward
// ones (networks/builder.hpp).
#pragma once

#include "core/graph.hpp"

namespace um {

// Fuses operators into fewer passes over the data, where nothing else reads the tensor between:
//
// convolution, relu -> convolution with relu;
//
// convolution, relu, max_pool -> convolution without its bias, max_pool with bias and relu;
//
// linear, relu -> linear with relu;
//
// batch_norm [, add] [, relu] -> batch_norm with residual and relu (normalize likewise).
//
// `g` must hold forward operators only. A fused operator keeps the name of its first operator, its output
// that of the last.
graph fuse(const graph& g);

}  // namespace um
