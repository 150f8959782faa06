// Orders of computes: which operators run when, and in which parts of the batch.
#pragma once

#include <cstdint>
#include <vector>

#include "core/planner.hpp"

namespace um {

// All operators, whole, in the order of the graph.
std::vector<compute> graph_order(const graph& g);

// A plan that runs this order with the same residence for all tensors.
memory_plan make_plan(const graph& g, const std::vector<compute>& order, residence home);

// Number of images in the network's input; 1 if it has none.
std::int64_t batch_size(const graph& g);
// Number of images in an operator's batch.
std::int64_t images_of_op(const graph& g, const op& o);

// Whether an operator can be split into `parts` parts of the batch. Its first extent must be the batch, which
// it is not for operators on parameters. The loss can be split: its parts add up.
bool can_split_batch(const graph& g, const op& o, std::uint32_t parts);

// A loop over `parts` parts of the batch: each iteration runs operators [begin, end) on one part. Operators
// that cannot be split run whole: before the first part that reads them, or between two rounds of parts if
// they depend on parts. An operator that reads a sum over parts waits for the whole sum in the same way.
struct batch_loop {
  op_id begin = 0, end = 0;
  std::uint32_t parts = 1;  // number of parts of the batch
  bool descending = false;  // iterates from the last part to the first
  friend bool operator==(const batch_loop&, const batch_loop&) = default;
};

// With micro-batches one loop runs over all operators, and there are no inner loops.
struct loop_nest {
  std::uint32_t micro_batches = 1;
  std::vector<batch_loop> inner_loops;  // sorted by `begin`, disjoint
  std::vector<op_id> deferred;  // operators that run whole after all others, such as gradients of parameters
  friend bool operator==(const loop_nest&, const loop_nest&) = default;
};

// The order of computes for these loops; parameter gradients of the parts add up. Operators that depend on
// deferred ones are deferred, too. Throws infeasible, naming the operator, if a micro-batch would have to
// read an operator that needs the whole batch.
std::vector<compute> make_order(const graph& g, const loop_nest& l);

// Operators whose outputs are gradients of parameters and larger than their inputs: candidates for deferral.
std::vector<op_id> ops_with_large_parameter_gradients(const graph& g);

// Orders of whole operators that searches try: with all of these operators deferred and, if one of them
// writes more than all others together, with that one alone deferred.
std::vector<loop_nest> whole_operator_nests(const graph& g);

}  // namespace um
