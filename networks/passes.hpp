// Passes over a finished graph: fusion, precision and memory order, cheap recomputation, an optimizer's step.
#pragma once

#include "core/graph.hpp"
#include "networks/spec.hpp"

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

// The graph without tensors that no operator uses; the others keep their order.
graph without_unused_tensors(const graph& g);

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

// Recomputes some activations just before backward operators read them, under the name `NAME.again`, so that
// their first copy can be released in the forward pass. Only outputs of normalisations, pointwise operators,
// casts and convolutions of at most 32 products per element are recomputed, and only while that lowers the
// peak of live bytes in graph order (without workspaces) and moves, in total, at most `max_traffic_per_byte`
// bytes per byte saved. `g` is a finished training graph.
graph recompute_cheap(const graph& g, double max_traffic_per_byte = 2.2);

// The graph with one optimizer_step over every parameter that has a gradient, and its states: `NAME.m`,
// `NAME.v`, and `NAME.master` for a parameter in bf16. Rates are the defaults of torch.optim; momentum is
// 0.9. Throws std::invalid_argument if no parameter has a gradient.
graph with_optimizer_step(const graph& g, optimizer_kind how);

}  // namespace um
