// One operator on a GPU, outside any plan: operands in buffers of their own with guards around them,
// results held against the reference, which gets the same rounded inputs.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cuda/session.hpp"
#include "core/graph.hpp"
#include "tests/reference/reference.hpp"

namespace um::gpu_tests {

// How operators are called.
struct calling {
  std::uint32_t parts = 1;  // slices along the batch
  bool in_place = false;    // outputs lie where op.alias says
  bool misaligned = false;  // every operand starts one element behind a multiple of 256 bytes
};

// Values of every tensor of a graph: given ones pseudo-random, the others from the reference, each
// rounded to its tensor's type before it is read.
std::vector<reference::values> values_of(const graph& g, std::uint64_t seed);

// Runs every operator of `g` by itself on the values above. Expects, for each: results within
// `tolerance` by ||out - reference|| / ||reference||, whole numbers exactly; every element written;
// inputs, and what lies around operands and the workspace, as before; the same bits a second time.
// `label` goes in front of failures.
void expect_operators_right(session& on, const graph& g, const calling& how, double tolerance,
                            const std::string& label);

}  // namespace um::gpu_tests
