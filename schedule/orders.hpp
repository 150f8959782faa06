// In which order, and in which parts of the batch, a network is computed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/planner.hpp"

namespace um {

// All operators, whole, in the graph's order.
std::vector<compute> in_order(const graph& g);

// A plan that computes in that order, all tensors with the same residence.
memory_plan plan_of(const graph& g, const std::vector<compute>& order, residence home);

// Images in the network's input; 1 if it has none.
std::int64_t batch_of(const graph& g);

// Whether an operator can go over the batch in `parts` parts: it can be cut so, and its first extent is
// the batch (on parameters it is not). The loss can: its parts add up.
bool goes_over_batch(const graph& g, const op& o, std::uint32_t parts);

// Operators [begin, end) that go over the batch in `parts`, one part through all of them after the other.
// Those that cannot be cut are computed whole: before the first part that reads them, or between two rounds
// of parts where they depend on parts. What reads a sum over parts waits for the whole sum in the same way.
struct inner_loop {
  op_id begin = 0, end = 0;
  std::uint32_t parts = 1;
  bool descending = false;  // the last part first
  friend bool operator==(const inner_loop&, const inner_loop&) = default;
};

// Micro-batches are one loop over all operators, without inner ones.
struct loops {
  std::uint32_t micro_batches = 1;
  std::vector<inner_loop> inner;  // by `begin`, disjoint
  std::vector<op_id> late;        // computed whole and last: gradients of parameters
  friend bool operator==(const loops&, const loops&) = default;
};

// The computes of all operators for these loops. Gradients of parts add up. What depends on what is late is
// late, too. Throws infeasible, naming the operator, where micro-batches meet one that needs the whole batch
// and is read by one that is cut.
std::vector<compute> order_of(const graph& g, const loops& l);

// The gradients of parameters that are larger than all that they are computed from: better late.
std::vector<op_id> large_gradients(const graph& g);

}  // namespace um
