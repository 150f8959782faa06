// The step of an optimizer behind a training graph: a pass over a finished graph.
#pragma once

#include "networks/spec.hpp"

namespace um {

// The same graph with one optimizer_step over every parameter that has a gradient, and its states: `NAME.m`,
// `NAME.v`, and `NAME.master` of a parameter in bf16. The learning rate and AdamW's other
// rates are the defaults of torch.optim; momentum is 0.9.
// Throws std::invalid_argument where no parameter has a gradient.
graph stepped(const graph& g, optimizer_kind how);

}  // namespace um
