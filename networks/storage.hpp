// Precision and memory order: a pass over a finished graph.
#pragma once

#include "core/graph.hpp"

namespace um {

// The graph computed in `arithmetic`, with tensors in `order`. Element types:
//
// fp32, tf32: everything f32.
//
// bf16: inputs, activations and their gradients are bf16; parameters, their gradients, statistics of
// normalisations and the loss are f32. Each filter and matrix is cast to bf16 once per iteration, just before
// its first use (`NAME.bf16`); with `narrow_weights` it is bf16 itself.
//
// Index and label tensors keep their types.
graph with_storage_format(const graph& g, precision arithmetic, memory_order order,
                          bool narrow_weights = false);

}  // namespace um
