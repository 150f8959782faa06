// Splits a network into calls of ooc_cuDNN, each of one operator or of several that a fused function
// computes, and a call into parts.
#pragma once

#include <vector>

#include "core/memory_plan.hpp"
#include "planners/ooc_model.hpp"

namespace um {

// Operators [begin, end).
//   forward   a convolution [, its ReLU] [, the pool behind it]
//   backward  [a pool's gradient,] [a ReLU's,] then gradients of one convolution's filter, bias and data
//   other     any other operator
struct ooc_call {
  enum class kind : std::uint8_t { forward, backward, other };
  op_id begin = 0, end = 0;  // operators [begin, end)
  kind what = kind::other;
  friend bool operator==(const ooc_call&, const ooc_call&) = default;
};
std::vector<ooc_call> calls_of(const graph& g);
// One for each operator.
std::vector<ooc_call> split_into_operators(const graph& g, const ooc_call& call);

// Maximum number of parts along each coordinate; 1 where some operator of the call cannot be cut. Rows of
// fused functions are cut where windows of a pool do not overlap and no bias gradient is summed before a
// convolution's rows are known.
division most_parts(const graph& g, const ooc_call& call);

// Computes that run in one set of staging buffers.
using ooc_step = std::vector<compute>;
// Index of a part along batch, rows, channels of x and channels of y.
struct part_index {
  std::uint32_t n = 0, h = 0, xc = 0, yc = 0;
};
ooc_step step_of(const graph& g, const ooc_call& call, const division& d, const part_index& at);
// Forward: batch, channels of y, rows, channels of x, the last innermost. Backward: batch, rows, channels of
// x, channels of y. ReLU and pool come with the last channels of x, their gradients with the first.
std::vector<ooc_step> steps_of(const graph& g, const ooc_call& call, const division& d);

}  // namespace um
