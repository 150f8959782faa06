// One operator on a GPU, outside any plan: operands in buffers of their own with guards around them,
// results held against the reference, which gets the same rounded inputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/session.hpp"
#include "core/access.hpp"
#include "tests/reference/reference.hpp"

namespace um::gpu_tests {

// In how many parts an operator is cut along each axis, as evenly as it goes, at most one for each element.
struct cutting {
  std::uint32_t batch = 1, channel = 1, row = 1, reduction = 1;
  friend bool operator==(const cutting&, const cutting&) = default;
};
std::string name_of(const cutting& c);
// The parts, in an order in which those that begin a sum come before those that add to it. Nothing if the
// operator cannot be cut so.
std::vector<box> parts_of(const graph& g, const op& o, const cutting& c);

// How operators are called.
struct calling {
  cutting cut = {};
  bool in_place = false;    // outputs lie where op.alias says
  bool misaligned = false;  // every operand starts one element behind a multiple of 256 bytes
};

// What a graph's operators read and what each should give, from the reference: given tensors pseudo-random,
// each value rounded to its tensor's type before it is read. The same in every memory order.
struct reference_values {
  std::vector<reference::values> read;                   // per tensor
  std::vector<std::vector<reference::values>> expected;  // per operator and output, not rounded
};
reference_values reference_values_of(const graph& g);

// Runs every operator of `g` that can be cut so by itself on such values, every part of an operand dense
// in a buffer of its own. Expects, for each: results within `tolerance` by ||out - reference|| /
// ||reference||, whole numbers exactly; every element written; inputs, and what lies around operands and the
// workspace, as before; the same bits a second time, and those of the whole operator where no sum is made of
// other parts. `label` goes in front of failures. Returns how many operators it ran.
std::size_t expect_operators_right(session& gpu, const graph& g, const reference_values& values,
                                   const calling& options, double tolerance, const std::string& label);

}  // namespace um::gpu_tests
