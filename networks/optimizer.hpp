// Adds an optimizer's step to a finished training graph.
#pragma once

#include "networks/spec.hpp"

namespace um {

// The graph with one optimizer_step over every parameter that has a gradient, and its states: `NAME.m`,
// `NAME.v`, and `NAME.master` for a parameter in bf16. Rates are the defaults of torch.optim; momentum is
// 0.9. Throws std::invalid_argument if no parameter has a gradient.
graph with_optimizer_step(const graph& g, optimizer_kind how);

}  // namespace um
