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
  bool given = false;       // an input that starts in host memory: nothing is copied out
  std::size_t made_by = 0;  // else its producer: index of a forward operator
};

// The two passes of a network, and the tensors that the forward pass leaves to the backward pass.
struct passes {
  double forward = 0, backward = 0;  // ns
  std::vector<saved_tensor> saved;
  std::vector<double> again;                    // ns: recomputation time of each forward operator
  std::vector<std::vector<std::size_t>> needs;  // forward operators that must run again for it
};

passes passes_of(const problem& p);

// The first operator that writes a gradient; the number of operators if there is none.
op_id first_backward(const graph& g);

struct pass_bound {
  nanoseconds least = no_bound;  // no_bound where what must be kept exceeds the budget
  first_prices at;               // the dual prices at which it was found
};
pass_bound pass_bound_of(const passes& x, const machine& on, byte_count budget, allowed what);

}  // namespace um
