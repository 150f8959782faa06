// The accesses of an operator or a part of it: which region of each operand it reads, writes or adds to, and
// how many floating-point operations and bytes that takes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/box.hpp"
#include "core/graph.hpp"

namespace um {

enum class access_mode : std::uint8_t { read, write, accumulate };
struct access {
  tensor_id tensor = 0;
  region where;  // the region of the tensor
  access_mode mode = access_mode::read;
};

// The ranges along which an operator can be cut: the extents of its first output (for filter and bias
// gradients and the loss: of the operand that they sum over). `reduction`: the channels that a convolution
// sums over; for a filter gradient, the filter's input channels; 0:1 for all other operators.
box iteration_domain(const graph& g, const op& o);

// Makes every range of a part explicit. Throws std::invalid_argument, naming the operator and the reason, if
// the operator cannot be cut like that or has no such range.
box with_explicit_ranges(const graph& g, const op& o, const box& part);

// The accesses of a part of `o`: inputs in order, then outputs in order. If the operator sums over some axes
// into an output, the part whose summed ranges all begin at 0 writes the output and other parts add to it
// later. The bias of a convolution is added only by the part whose reduction begins at 0. No region is empty:
// if a part reads only padding, the nearest row is listed. Throws as with_explicit_ranges() does.
std::vector<access> accesses_of(const graph& g, const op& o, const box& part = {});

// The ranges of a part over which output number `output` sums, with the whole axis along all other axes.
box summation_ranges(const graph& g, const op& o, std::size_t output, const box& part);

// Rows of padding above and below the rows of x (or dx) that a part of a convolution or a pool reads, so that
// its windows lie as in the whole operator. It is less than the operator's padding if the part reads its
// neighbours' rows (halo), more for gradients whose first window begins outside the part, and negative if no
// window of the part covers the rows at a border. 0 for operators without windows.
struct row_padding {
  std::int64_t above = 0, below = 0;  // number of rows
  friend bool operator==(const row_padding&, const row_padding&) = default;
};
row_padding padding_of(const graph& g, const op& o, const box& part);

// The share of a total that falls to a part, by volume. Rounded so that the parts of a grid add up to the
// total.
std::uint64_t share_of(std::uint64_t total, const graph& g, const op& o, const box& part);

struct work {
  std::uint64_t flops = 0;
  byte_count read = 0, written = 0;
};
// Multiply and add count as two operations; each operand byte is counted once.
work work_of(const graph& g, const op& o, const box& part = {});

}  // namespace um
