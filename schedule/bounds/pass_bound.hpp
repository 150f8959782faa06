// A lower bound on the time of plans that end the forward pass before the backward pass begins (README.md,
// "Two passes").
#pragma once

#include <cstddef>
#include <vector>

#include "core/planner.hpp"
#include "schedule/bounds/whole_bound.hpp"

namespace um {

struct saved_tensor {
  double bytes = 0;
  bool starts_on_host = false;  // a network input: it needs no copy out
  std::size_t producer = 0;     // the forward operator that writes it, unless it starts on the host
};

// The two passes of a network, and the tensors that the backward pass reads from the forward pass.
struct passes {
  double forward_time = 0, backward_time = 0;  // ns
  std::vector<saved_tensor> saved_tensors;
  std::vector<double> recompute_time;  // ns, per forward operator
  std::vector<std::vector<std::size_t>>
      required_ops;  // per forward operator: the operators that must run again before it can
  // Bytes that the forward pass reads and that are kept across iterations: parameters, inputs, labels.
  double forward_start_bytes = 0;
  double gradient_bytes = 0;  // of parameter gradients, which the backward pass writes and the user reads
};

passes split_passes(const problem& p);

// The first operator that writes a gradient; the number of operators if there is none.
op_id first_backward(const graph& g);

struct pass_bound {
  nanoseconds min_time = no_bound;  // no_bound if there is no such plan
  start_prices prices;              // dual prices of the linear program
};
pass_bound bound_passes(const passes& x, const machine& m, byte_count budget, allowed_moves allowed);

}  // namespace um
