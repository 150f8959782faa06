// The accesses of an operator or of a part of it: which region of which operand it reads, writes or adds to,
// and how many floating-point operations and bytes that takes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/box.hpp"
#include "core/graph.hpp"

namespace um {

enum class access_mode : std::uint8_t { read, write, accumulate };
struct access {
  tensor_id what = 0;  // the tensor
  region where;        // the part of it
  access_mode mode = access_mode::read;
};

// The ranges along which an operator can be cut: the extents of its first output (of filter and bias
// gradients and of the loss: those of the operand that they sum over). `reduction`: the channels that a
// convolution sums over, the filter's input channels for a filter gradient, 0:1 for all other operators.
box iteration_domain(const graph& g, const op& o);

// `part` of an operator with every range explicit. Throws std::invalid_argument, naming the operator and the
// reason, where it cannot be cut so or has no such range.
box with_explicit_ranges(const graph& g, const op& o, const box& part);

// The operands of a part of `o`: inputs in order, then outputs in order. An output over whose axes the part
// sums is written by the part whose summed ranges all begin at 0 and added to by the others, which come after
// it. The bias of a convolution is added by the part whose reduction begins at 0 alone.
// No region is empty: where only padding would be read, the nearest row stands for it.
// Throws as with_explicit_ranges() does.
std::vector<access> accesses_of(const graph& g, const op& o, const box& part = {});

// The ranges of a part over which output `which` sums; along other axes, all of the axis.
box summed_part(const graph& g, const op& o, std::size_t which, const box& part);

// Rows of padding that remain above and below the rows of x (of dx) that a part of a convolution or a pool
// works on, so that its windows lie as in the whole: less than the operator's where the part reads its
// neighbours' rows (halo), more for gradients whose first window begins outside the part, negative where rows
// at a border lie under no window of the part. 0 for operators without windows.
struct row_padding {
  std::int64_t above = 0, below = 0;
  friend bool operator==(const row_padding&, const row_padding&) = default;
};
row_padding padding_of(const graph& g, const op& o, const box& part);

// Whether an operator can be computed in that many parts of the batch: it can be cut so, its first axis is
// the batch (for parameters it is not), and it writes no output of the network.
bool can_be_cut(const graph& g, const op& o, std::uint32_t parts);

// A part's share of a total by volume, rounded so that the parts of a grid add up to the total.
std::uint64_t share_of(std::uint64_t total, const graph& g, const op& o, const box& part);

struct work {
  std::uint64_t flops = 0;
  byte_count read = 0, written = 0;
};
// Multiply and add count as two operations; each operand byte is counted once.
work work_of(const graph& g, const op& o, const box& part = {});

}  // namespace um
