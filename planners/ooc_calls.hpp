// Splits a network into calls of ooc_cuDNN, each of one operator or of several that a fused function
// computes, and a call into parts.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/memory_plan.hpp"
#include "core/units.hpp"

namespace um {

// Performance model of ooc_cuDNN (Ito, Matsumiya, Endo, IEEE BigData 2017; src/*_optimize.cpp of its code):
// the time of a call whose parts stream through staging memory, and the division with the least time.

// Number of parts of the batch, of rows, of the channels of x and of the channels of y.
struct division {
  std::uint32_t n = 1, h = 1, xc = 1, yc = 1;
  friend bool operator==(const division&, const division&) = default;
};
constexpr std::uint64_t parts_of(const division& d) {
  return std::uint64_t{d.n} * d.h * d.xc * d.yc;
}

// Times of one part: `pre` copies x and w to the device, `conv` runs the operators, `off` copies y to the
// host. `_last`: of the last part.
struct forward_part_times {
  nanoseconds pre = 0, conv = 0, off = 0, conv_last = 0, off_last = 0;
};
nanoseconds forward_time(const forward_part_times& t, const division& d);

// Times of one part that computes the gradients of x, w and bias. pre1 copies x in, pre2 w, dy, dw and db;
// off1 copies dw and db out, off2 dx.
struct backward_part_times {
  nanoseconds pre1 = 0, pre2 = 0, conv = 0, off1 = 0, off2 = 0, conv_last = 0, off1_last = 0, off2_last = 0;
};
nanoseconds backward_time(const backward_part_times& t, const division& d);

// Time of a share of an operator: `bias` plus the share of the rest of the measured time `whole`.
nanoseconds part_time(nanoseconds whole, nanoseconds bias, double share);
// Convolutions count output channels in multiples of 32.
double share_of_channels(std::int64_t part, std::int64_t all, bool of_convolution);

using coordinate = std::uint32_t division::*;
inline constexpr std::array<coordinate, 4> forward_order{&division::n, &division::h, &division::xc,
                                                         &division::yc};
inline constexpr std::array<coordinate, 3> backward_order{&division::n, &division::h, &division::xc};

// Time of a call in this division; nothing if a part does not fit.
using division_time = std::function<std::optional<nanoseconds>(const division&)>;

// One pass of coordinate descent in the given order. It tries all counts of a coordinate, up to that of
// `most`, that change the size of the largest part. If no coordinate alone makes parts that fit, it cuts the
// first coordinates as finely as possible and makes another pass. Nothing if no division fits.
std::optional<division> best_division(const division& most, std::span<const coordinate> order,
                                      const division_time& time);

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
division max_division(const graph& g, const ooc_call& call);

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
