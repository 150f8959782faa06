// How long a call of ooc_cuDNN takes that is divided and streamed through staging memory, by its performance
// model (Ito, Matsumiya, Endo, IEEE BigData 2017; src/*_optimize.cpp of its code), and the division with the
// least time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "core/units.hpp"

namespace um {

// In how many parts: of the batch, of rows, of the channels of x and of those of y.
struct division {
  std::uint32_t n = 1, h = 1, xc = 1, yc = 1;
  friend bool operator==(const division&, const division&) = default;
};
constexpr std::uint64_t parts_of(const division& d) {
  return std::uint64_t{d.n} * d.h * d.xc * d.yc;
}

// Of one part: copies of x and w to the device, the operators, the copy of y to the host. `last`: of the last
// part.
struct forward_part {
  nanoseconds pre = 0, conv = 0, off = 0, conv_last = 0, off_last = 0;
};
nanoseconds forward_time(const forward_part& t, const division& d);

// Gradients of x, w and bias at once. pre1, off2: x and dx; pre2: w, dy, dw and db; off1: dw and db.
struct backward_part {
  nanoseconds pre1 = 0, pre2 = 0, conv = 0, off1 = 0, off2 = 0, conv_last = 0, off1_last = 0, off2_last = 0;
};
nanoseconds backward_time(const backward_part& t, const division& d);

// weight * volume + bias, from one measured time of the whole: convolutions count output channels in
// multiples of 32.
nanoseconds part_time(nanoseconds whole, nanoseconds bias, double share);
double share_of_channels(std::int64_t part, std::int64_t all, bool of_convolution);

using coordinate = std::uint32_t division::*;
inline constexpr std::array<coordinate, 4> forward_order{&division::n, &division::h, &division::xc,
                                                         &division::yc};
inline constexpr std::array<coordinate, 3> backward_order{&division::n, &division::h, &division::xc};

// The time of a call so divided, or nothing where a part does not fit.
using division_time = std::function<std::optional<nanoseconds>(const division&)>;

// Coordinate descent, once, in the order given: each coordinate over all counts up to that of `most` that
// change the size of the largest part, the others held. Where no coordinate alone makes parts that fit, those
// before it are cut as finely as they can be, and all are gone over once more. Nothing if nothing fits.
std::optional<division> divide(const division& most, std::span<const coordinate> order,
                               const division_time& time);

}  // namespace um
