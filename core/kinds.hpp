// What each kind of operator touches and computes. For each operand, how cutting the operator along an axis
// narrows it (core/access.hpp makes regions of it); and how many floating-point operations it takes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph.hpp"

namespace um::cutting {

enum class operand_cut : std::uint8_t {
  refused,  // the operator cannot be cut along this axis
  whole,
  part,      // the same elements along the same axis
  channels,  // a part of the reduction is a part of the second extent
  filters,   // a part of channels, or of the reduction, is a part of the first extent
  windows,   // input rows that the windows of the part's output rows cover
  meeting,   // output rows whose windows overlap the part's input rows
  sum,       // everything, written by the first part and added to by later ones
};

// One operand's rule for each axis.
struct cuts_by_axis {
  operand_cut batch, channel, row, reduction = operand_cut::refused;
};

// `cut_tensor` is the operand whose extents are cut.
struct cut_rules {
  std::vector<cuts_by_axis> in, out;
  tensor_id cut_tensor = 0;
};

cut_rules cut_rules_of(const op& o);

}  // namespace um::cutting

namespace um {

// Of the whole operator; multiply and add count as two. Throws std::overflow_error, naming it, where they are
// 2^64 or more.
std::uint64_t flops_of(const graph& g, const op& o);

}  // namespace um
